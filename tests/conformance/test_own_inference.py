"""Models with a raw handler for their `POST /v2/models/{model}/infer`, next to ordinary models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from models.protocol import add
from penstock import Request, Response, Server, model
from penstock.testing import Client

from .content import add as adding
from .content import one, summed, tensor
from .protocols import GrpcProtocol, HttpProtocol, served
from .transports import InProcess, Reply, Rest, Transport

PATH = "/v2/models/own/infer"


@model(name="own", routes=["POST /v2/models/own/infer", "POST /v2/models/{any}/versions/1/infer"])
def own(request: Request) -> Any:
    if request.route is None:
        return {"y": request.tensors["x"] + 1}
    if request.headers.get("x-status"):
        return Response(b"own", status=int(request.headers["x-status"]), headers={"X-Own": "1"})
    return Response(json.dumps({"took": (request.body or b"").decode(), "query": request.query}))


@model(name="chunks", routes=["POST /v2/models/chunks/infer"])
def chunks(request: Request) -> Iterator[Any]:
    yield Response("a", content_type="text/event-stream")
    yield "b"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(own, chunks, add, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


@pytest.fixture(params=["http", "in process"])
def http(request: pytest.FixtureRequest, server: Server) -> Iterator[Transport]:
    if request.param == "http":
        yield Rest(server.http_url)
        return
    with Client(own, chunks, add) as client:
        yield InProcess(client)


@pytest.mark.parametrize("body", [b"", b"{}", b"no JSON", b'{"inputs": 1}', json.dumps({"inputs": []}).encode()])
def test_body_is_passed_unparsed(http: Transport, body: bytes) -> None:
    response = http.request("POST", f"{PATH}?a=b", body, {"Content-Type": "application/json"})
    assert (response.status, response.json()) == (200, {"took": body.decode(), "query": "a=b"})


def test_status_headers_and_chunks_are_the_models(http: Transport) -> None:
    response = http.request("POST", PATH, b"{}", {"X-Status": "418"})
    assert (response.status, response.headers["x-own"], response.body) == (418, "1", b"own")
    stream = http.request("POST", "/v2/models/chunks/infer", b"{}")
    assert (stream.headers["content-type"], stream.body) == ("text/event-stream", b"ab")


def test_raw_tensor_requests_are_parsed_by_the_server(http: Transport) -> None:
    assert (
        served(HttpProtocol("binary", http, binary=True).infer(one("own")), tensor("y", "FP32", [2.0])).model == "own"
    )
    # Array formats are for declared inputs: here they are ordinary bodies.
    assert http.request("POST", PATH, b"array", {"Content-Type": "application/x-npy"}).json()["took"] == "array"


def test_grpc_tensors_are_parsed_by_the_server(server: Server) -> None:
    for typed in (False, True):
        protocol = GrpcProtocol("grpc", server.grpc_url, typed=typed)
        served(protocol.infer(one("own")), tensor("y", "FP32", [2.0]))
        protocol.channel.close()


def test_other_models_and_paths_use_the_servers_inference(http: Transport) -> None:
    for binary in (False, True):
        served(HttpProtocol("http", http, binary=binary).infer(adding()), summed())
    # A route pattern does not match inference, though it would fit.
    for path in ("/v2/models/own/versions/1/infer", "/v2/models/add/versions/1/infer", "/v2/models/add/infer"):
        assert "inputs" in http.request("POST", path, b"{}").refusal(400)
    assert "'none'" in http.request("POST", "/v2/models/none/infer", b"{}").refusal(404)
    assert http.request("GET", PATH).refusal(405)


def test_general_request_rules_apply() -> None:
    limits: Any = {"max_body_bytes": 8, "restricted_access": "inference:key=secret"}
    with Server(own, http="127.0.0.1:0", grpc=None, **limits) as server:
        rest = Rest(server.http_url)
        post_infer = lambda body: rest.request("POST", PATH, body, {"key": "secret"})  # noqa: E731
        assert "restricted" in rest.request("POST", PATH, b"{}").refusal(403)
        assert post_infer(b"12345678").status == 200
        assert "at most 8" in post_infer(b"123456789").refusal(413)


def test_route_is_added_and_removed_with_the_model() -> None:
    def post_infer() -> Reply:
        return Rest(server.http_url).request("POST", PATH, b"{}")

    with Server(add, http="127.0.0.1:0", grpc=None) as server:
        assert "'own'" in post_infer().refusal(404)
        server.add(own)
        assert post_infer().json()["took"] == "{}"
        server.remove("own")
        assert "'own'" in post_infer().refusal(404)
        assert "inputs" in Rest(server.http_url).request("POST", "/v2/models/add/infer", b"{}").refusal(400)
