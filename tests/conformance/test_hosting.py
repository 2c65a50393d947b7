"""The routes that SageMaker and Vertex AI call."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from models.v1 import MODELS, echo_context, first, rows
from penstock import Server, ServerConfig
from penstock.config import load_config
from penstock.errors import ConfigError
from penstock.testing import Client

from .transports import InProcess, Reply, Rest

V2 = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}
VERTEX: Any = {"vertex": True, "vertex_health_route": "/health", "vertex_predict_route": "/predict"}


def post(transport: InProcess | Rest, path: str, document: Any, headers: dict[str, str] | None = None) -> Reply:
    return transport.request("POST", path, json.dumps(document).encode(), headers)


def ok(reply: Reply) -> Any:
    assert reply.status == 200, reply
    return json.loads(reply.body)


def test_hosting_routes_are_off_by_default() -> None:
    with Client(rows) as client:
        transport = InProcess(client)
        for path in ("/ping", "/health"):
            transport.request("GET", path).refusal(404)
        for path in ("/invocations", "/predict"):
            post(transport, path, V2).refusal(404)


def test_sagemaker_ping_and_invocations_in_v1_and_v2() -> None:
    with Client(rows, sagemaker=True) as client:
        transport = InProcess(client)
        assert ok(transport.request("GET", "/ping"))["ready"] is True
        assert ok(post(transport, "/invocations", {"instances": [[1, 2]]})) == {"predictions": [[2, 4]]}
        assert ok(post(transport, "/invocations", {"parameters": {}, "instances": [[1, 2]]})) == {
            "predictions": [[2, 4]]
        }
        response = ok(post(transport, "/invocations", V2, {"X-Amzn-SageMaker-Custom-Attributes": "trace=1"}))
        assert response["outputs"][0]["data"] == [2, 4]
        assert transport.request("POST", "/ping").refusal(405) == "Method Not Allowed"
        assert transport.request("GET", "/invocations").refusal(405) == "Method Not Allowed"
        message = transport.request("POST", "/invocations", b"1,2\n", {"Content-Type": "text/csv"}).refusal(400)
        assert "expected a JSON object" in message


@pytest.mark.parametrize("in_type", [True, False], ids=["content-type", "header"])
def test_sagemaker_accepts_binary_tensors(in_type: bool) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    kind = "application/vnd.sagemaker-triton.binary+json;json-header-size="
    headers = {"Content-Type": f"{kind}{len(head)}"} if in_type else {"Inference-Header-Content-Length": str(len(head))}
    with Client(rows, sagemaker=True) as client:
        reply = InProcess(client).request("POST", "/invocations", head + np.array([1, 2], "<f4").tobytes(), headers)
    assert reply.status == 200, reply
    assert reply.body.endswith(np.array([2, 4], "<f4").tobytes())
    if in_type:
        assert reply.headers["content-type"] == f"{kind}{len(reply.body) - 8}"
    else:
        assert reply.headers["inference-header-content-length"] == str(len(reply.body) - 8)


def test_hosted_model_is_the_configured_or_the_only_one() -> None:
    with Client(*MODELS, sagemaker=True) as client:
        transport = InProcess(client)
        expected = "the server has 8 models, and the setting hosted_model names none of them"
        assert post(transport, "/invocations", V2).refusal(503) == expected
        ping = transport.request("GET", "/ping")
        assert (ping.status, json.loads(ping.body)["error"]) == (503, expected)
    with Client(*MODELS, sagemaker=True, hosted_model="rows") as client:
        assert ok(post(InProcess(client), "/invocations", {"instances": [[1, 2]]})) == {"predictions": [[2, 4]]}
    with Client(first, sagemaker=True, hosted_model="missing") as client:
        transport = InProcess(client)
        assert post(transport, "/invocations", V2).refusal(404) == "unknown model 'missing'"
        assert transport.request("GET", "/ping").status == 503


def test_vertex_routes_and_parameters() -> None:
    with Client(echo_context, **VERTEX) as client:
        transport = InProcess(client)
        assert ok(transport.request("GET", "/health"))["ready"] is True
        response = ok(post(transport, "/predict", {"instances": ["a"], "parameters": {"top": 3}}))
        assert response == {"predictions": [{"word": "a", "parameters": {"top": 3}, "header": None}]}
        assert ok(post(transport, "/predict", {"instances": ["a"], "parameters": None}))["predictions"]


def test_vertex_route_may_equal_a_protocol_route() -> None:
    routes: Any = {"vertex_health_route": "/v2/health/live", "vertex_predict_route": "/v2/models/rows/infer"}
    with Client(rows, vertex=True, **routes) as client:
        transport = InProcess(client)
        assert ok(post(transport, "/v2/models/rows/infer", {"instances": [[1, 2]]})) == {"predictions": [[2, 4]]}
        assert ok(post(transport, "/v2/models/rows/infer", V2))["outputs"]


def test_vertex_variables_are_read_only_when_enabled() -> None:
    environ = {"AIP_HTTP_PORT": "8090", "AIP_HEALTH_ROUTE": "/h", "AIP_PREDICT_ROUTE": "/p"}
    assert load_config({}, environ=environ) == ServerConfig()
    config = load_config({"vertex": True}, environ=environ)
    assert (config.http, config.vertex_health_route, config.vertex_predict_route) == ("0.0.0.0:8090", "/h", "/p")
    config_from_environ = load_config({}, environ={**environ, "PENSTOCK_VERTEX": "on", "PENSTOCK_HTTP": "127.0.0.1:1"})
    assert (config_from_environ.http, config_from_environ.vertex_health_route) == ("127.0.0.1:1", "/h")
    with pytest.raises(ConfigError, match="vertex: there is no vertex_predict_route, and AIP_PREDICT_ROUTE is not in"):
        load_config({"vertex": True}, environ={"AIP_HEALTH_ROUTE": "/h"})
    with pytest.raises(ConfigError, match="AIP_HTTP_PORT: 'x' is not an integer"):
        load_config({"vertex": True}, environ={**environ, "AIP_HTTP_PORT": "x"})
    with pytest.raises(ConfigError, match="AIP_PREDICT_ROUTE: 'p' is not a path such as /predict"):
        load_config({"vertex": True}, environ={**environ, "AIP_PREDICT_ROUTE": "p"})


def test_restrictions_apply_to_hosting_routes() -> None:
    routes: Any = {"vertex_health_route": "/h", "vertex_predict_route": "/v2/health/predict"}
    with Client(rows, vertex=True, restricted_access="inference:x-key=secret", **routes) as client:
        transport = InProcess(client)
        assert transport.request("GET", "/h").status == 200
        for path in ("/v2/health/predict", "/v1/models/rows:predict"):
            assert "x-key" in post(transport, path, {"instances": [[1, 2]]}).refusal(403)
            assert ok(post(transport, path, {"instances": [[1, 2]]}, {"X-Key": "secret"}))
    with Client(rows, sagemaker=True, api_key="k") as client:
        transport = InProcess(client)
        assert transport.request("GET", "/ping").status == 200
        post(transport, "/invocations", V2).refusal(401)


def test_hosting_routes_over_a_socket() -> None:
    with Server(rows, config=ServerConfig(http="127.0.0.1:0", grpc=None, sagemaker=True, **VERTEX)) as server:
        transport = Rest(server.http_url)
        for health, predict in (("/ping", "/invocations"), ("/health", "/predict")):
            assert ok(post(transport, predict, {"instances": [[1, 2]]})) == {"predictions": [[2, 4]]}
            head = transport.request("HEAD", health)
            assert (head.status, head.body) == (200, b"")
