"""Open models that take requests which V2 does not allow and other servers take; and what is said of absent models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

import http_by_hand
from penstock import Processes, Request, Response, Server, SignatureError, Tensor, model
from penstock.testing import Client


def told(request: Request) -> Response:
    """What came, as text."""
    shown = {name: array.tolist() for name, array in request.tensors.items()}
    return Response(repr((shown, [*request.datatypes.values()], request.nested)))


lenient = model(told, name="lenient", version="3", lenient=True)
strict = model(told, name="strict", version="3")
elsewhere = model(told, name="elsewhere", lenient=True, instances=Processes(1))


def asked(client: Client, name: str, data: object, datatype: str = "FP32", shape: tuple[int, ...] = (2,)) -> Any:
    flat = {"name": "flat", "datatype": "INT8", "shape": [1], "data": [1]}
    one = {"name": "x", "datatype": datatype, "shape": shape, "data": data}
    return client.post(f"/v2/models/{name}/infer", json.dumps({"inputs": [flat, one]}))


@pytest.mark.parametrize("name", ["lenient", "elsewhere"])
def test_a_lenient_model_takes_null_and_small_letters(name: str) -> None:
    with Client(lenient, elsewhere) as client:
        assert (
            asked(client, name, [None, 1.5]).body.decode() == "({'flat': [1], 'x': [nan, 1.5]}, ['INT8', 'FP32'], ())"
        )
        answer = asked(client, name, [[None], [2]], "fp64", (2, 1))
        assert answer.body.decode() == "({'flat': [1], 'x': [[nan], [2.0]]}, ['INT8', 'FP64'], ('x',))"
        assert asked(client, name, [None, 1], "INT8").error().startswith("input 'x' has null at byte")


def test_others_take_neither() -> None:
    with Client(strict) as client:
        refused = asked(client, "strict", [None, 1.5])
        assert (refused.status, refused.error()[:25]) == (400, "input 'x' has null at byt")
        assert asked(client, "strict", [1, 2], "fp32").error().startswith("input 'x': unknown datatype 'fp32'")
        # How its data were written is for every open model to see.
        assert asked(client, "strict", [[1], [2]], shape=(2, 1)).body.decode().endswith("('x',))")


def test_leniency_is_for_requests_as_they_are() -> None:
    x = Tensor("x", "float32", [1])
    with pytest.raises(SignatureError, match=r"^model 'm': lenient= is for a handler that takes `request: penstock"):
        model(lambda x: x, name="m", inputs=[x], outputs=[x], lenient=True)


def test_a_request_made_by_hand_may_be_nested() -> None:
    both = {"x": np.ones((1, 1)), "y": np.ones(1)}
    assert Request(tensors=both, nested=["x", "z"]).nested == ("x",)
    assert Request(tensors=both).nested == ()


@pytest.fixture(scope="module")
def stub() -> Iterator[tuple[Server, service_pb2_grpc.GRPCInferenceServiceStub]]:
    with (
        Server(
            echo,
            model(echo, version="3", name="strict", lenient=False),
            http="127.0.0.1:0",
            grpc="127.0.0.1:0",
            dialect="kserve",
        ) as server,
        grpc.insecure_channel(str(server.grpc_address)) as channel,
    ):
        yield server, service_pb2_grpc.GRPCInferenceServiceStub(channel)


@model(version="3", lenient=True)
def echo(request: Request) -> Response:
    return Response(outputs=request.tensors)


Stub = tuple[Server, service_pb2_grpc.GRPCInferenceServiceStub]


def message(name: str, version: str) -> service_pb2.ModelInferRequest:
    made = service_pb2.ModelInferRequest(model_name=name, model_version=version)
    made.inputs.add(name="x", datatype="fp32" if name == "echo" else "FP32", shape=[1]).contents.fp32_contents.append(2)
    return made


def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


def test_any_version_of_a_lenient_model_is_there_over_grpc(stub: Stub) -> None:
    _, calls = stub
    answer = calls.ModelInfer(message("echo", "7"))
    assert (answer.model_version, answer.outputs[0].datatype) == ("3", "FP32")
    [streamed] = calls.ModelStreamInfer(iter([message("echo", "7")]))
    assert streamed.infer_response.model_version == "3"
    assert calls.ModelReady(service_pb2.ModelReadyRequest(name="echo", version="7")).ready
    assert list(calls.ModelMetadata(service_pb2.ModelMetadataRequest(name="echo", version="7")).versions) == ["3"]
    missing = (grpc.StatusCode.NOT_FOUND, "model 'strict' has no version '7'")
    assert refusal(lambda: calls.ModelInfer(message("strict", "7"))) == missing
    assert not calls.ModelReady(service_pb2.ModelReadyRequest(name="strict", version="7")).ready
    assert refusal(lambda: calls.ModelMetadata(service_pb2.ModelMetadataRequest(name="strict", version="7"))) == missing


def test_over_rest_a_version_that_is_not_there_is_missing() -> None:
    with Client(echo) as client:
        answer = client.get("/v2/models/echo/versions/7")
    assert (answer.status, answer.error()) == (404, "model 'echo' has no version '7'")


def test_a_dialect_has_its_texts_for_absent_models(stub: Stub) -> None:
    server, calls = stub
    unknown = (grpc.StatusCode.NOT_FOUND, "Model with name nope does not exist.")
    assert refusal(lambda: calls.ModelInfer(message("nope", ""))) == unknown
    assert refusal(lambda: calls.ModelMetadata(service_pb2.ModelMetadataRequest(name="nope"))) == unknown
    server.set_ready("strict", False)
    not_ready = "Model with name strict is not ready."
    assert refusal(lambda: calls.ModelInfer(message("strict", ""))) == (grpc.StatusCode.UNAVAILABLE, not_ready)
    server.set_ready("strict", False, "so far")
    said = refusal(lambda: calls.ModelInfer(message("strict", "")))
    assert said == (grpc.StatusCode.UNAVAILABLE, "Model with name strict is not ready: so far")
    server.set_ready("strict", True)


@pytest.mark.parametrize(
    ("dialect", "unknown", "not_ready"),
    [
        ("penstock", "unknown model 'nope'", "model 'echo' is not ready"),
        (
            "triton",
            "Request for unknown model: 'nope' is not found",
            "Request for unknown model: 'echo' has no available versions",
        ),
        ("kserve", "Model with name nope does not exist.", "Model with name echo is not ready."),
    ],
)
def test_texts_and_name_of_a_dialect_over_rest(dialect: Any, unknown: str, not_ready: str) -> None:
    with Client(echo, dialect=dialect) as client:
        for path in ("/v2/models/nope", "/v2/models/nope/ready"):
            answer = client.get(path)
            assert (answer.status, answer.error()) == (404, unknown)
        answer = client.post("/v2/models/nope/infer", "{}")
        assert (answer.status, answer.error()) == (404, unknown)
        assert client.get("/v2").json()["name"] == dialect
        metrics = client.get("/metrics").body
        assert b"penstock_requests_total" in metrics
        assert (b"nv_inference_count" in metrics) == (dialect == "triton")
    with Server(echo, http="127.0.0.1:0", grpc=None, dialect=dialect, server_name="mine") as server:
        server.set_ready("echo", False)
        answer = http_by_hand.post(server.http_url, "/v2/models/echo/infer", b"{}")
        assert (answer.status, answer.error()) == (503, not_ready)
        assert http_by_hand.get(server.http_url, "/v2").json()["name"] == "mine"
