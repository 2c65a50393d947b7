"""Parsing of requests outside of V2 in the dialect of KServe; and each dialect's texts for absent models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

import http_by_hand
from penstock import Processes, Request, Response, Server, Tensor, model
from penstock.testing import Client


def describe(request: Request) -> Response:
    """Answers with the request's tensors, datatypes and nested inputs as text."""
    arrays = {name: array.tolist() for name, array in request.tensors.items()}
    return Response(repr((arrays, [*request.datatypes.values()], request.nested)))


in_thread = model(describe, name="in_thread", version="3")
in_process = model(describe, name="in_process", instances=Processes(1))


@model(
    version="3",
    inputs=[Tensor("flat", "int8", [1]), Tensor("x", "float32", [2])],
    outputs=[Tensor("y", "float32", [2])],
)
def declared(flat: np.ndarray, x: np.ndarray) -> np.ndarray:
    return x


@model(version="3")
def echo(request: Request) -> Response:
    return Response(outputs=request.tensors)


def infer(client: Client, name: str, data: object, datatype: str = "FP32", shape: tuple[int, ...] = (2,)) -> Any:
    flat = {"name": "flat", "datatype": "INT8", "shape": [1], "data": [1]}
    x = {"name": "x", "datatype": datatype, "shape": shape, "data": data}
    return client.post(f"/v2/models/{name}/infer", json.dumps({"inputs": [flat, x]}))


@pytest.mark.parametrize("name", ["in_thread", "in_process"])
def test_kserves_dialect_accepts_null_and_lower_case_datatypes(name: str) -> None:
    with Client(in_thread, in_process, dialect="kserve") as client:
        assert (
            infer(client, name, [None, 1.5]).body.decode() == "({'flat': [1], 'x': [nan, 1.5]}, ['INT8', 'FP32'], ())"
        )
        answer = infer(client, name, [[None], [2]], "fp64", (2, 1))
        assert answer.body.decode() == "({'flat': [1], 'x': [[nan], [2.0]]}, ['INT8', 'FP64'], ('x',))"
        assert infer(client, name, [None, 1], "INT8").error().startswith("input 'x' has null at byte")


@pytest.mark.parametrize("dialect", ["penstock", "triton"])
def test_other_dialects_refuse_null_and_lower_case_datatypes(dialect: Any) -> None:
    with Client(in_thread, dialect=dialect) as client:
        refused = infer(client, "in_thread", [None, 1.5])
        assert (refused.status, refused.error()[:25]) == (400, "input 'x' has null at byt")
        assert infer(client, "in_thread", [1, 2], "fp32").error().startswith("input 'x': unknown datatype 'fp32'")
        # Raw-request models see the form of the JSON in every dialect.
        assert infer(client, "in_thread", [[1], [2]], shape=(2, 1)).body.decode().endswith("('x',))")


def test_declared_inputs_are_strict_in_kserves_dialect() -> None:
    with Client(declared, dialect="kserve") as client:
        assert infer(client, "declared", [1, 1.5]).json()["outputs"][0]["data"] == [1, 1.5]
        refused = infer(client, "declared", [None, 1.5])
        assert (refused.status, refused.error()[:25]) == (400, "input 'x' has null at byt")
        assert infer(client, "declared", [1, 2], "fp32").error().startswith("input 'x': unknown datatype 'fp32'")


def test_a_request_from_a_constructor_may_be_nested() -> None:
    both = {"x": np.ones((1, 1)), "y": np.ones(1)}
    assert Request(tensors=both, nested=["x", "z"]).nested == ("x",)
    assert Request(tensors=both).nested == ()


Stub = tuple[Server, service_pb2_grpc.GRPCInferenceServiceStub]


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with (
        Server(echo, declared, http="127.0.0.1:0", grpc="127.0.0.1:0", dialect="kserve") as server,
        grpc.insecure_channel(str(server.grpc_address)) as channel,
    ):
        yield server, service_pb2_grpc.GRPCInferenceServiceStub(channel)


def message(name: str, version: str, datatype: str = "FP32") -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name=name, model_version=version)
    request.inputs.add(name="x", datatype=datatype, shape=[1]).contents.fp32_contents.append(2)
    return request


def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


def test_kserves_dialect_accepts_any_version_over_grpc(stub: Stub) -> None:
    _, calls = stub
    answer = calls.ModelInfer(message("echo", "7", "fp32"))
    assert (answer.model_version, answer.outputs[0].datatype) == ("3", "FP32")
    [streamed] = calls.ModelStreamInfer(iter([message("echo", "7", "fp32")]))
    assert streamed.infer_response.model_version == "3"
    assert calls.ModelReady(service_pb2.ModelReadyRequest(name="echo", version="7")).ready
    assert list(calls.ModelMetadata(service_pb2.ModelMetadataRequest(name="echo", version="7")).versions) == ["3"]


def is_strict(calls: service_pb2_grpc.GRPCInferenceServiceStub, name: str) -> None:
    missing = (grpc.StatusCode.NOT_FOUND, f"model '{name}' has no version '7'")
    assert refusal(lambda: calls.ModelInfer(message(name, "7"))) == missing
    assert not calls.ModelReady(service_pb2.ModelReadyRequest(name=name, version="7")).ready
    assert refusal(lambda: calls.ModelMetadata(service_pb2.ModelMetadataRequest(name=name, version="7"))) == missing


def test_an_absent_version_of_a_declared_model_is_missing_over_grpc(stub: Stub) -> None:
    is_strict(stub[1], "declared")


def test_other_dialects_refuse_an_absent_version_over_grpc() -> None:
    with (
        Server(echo, http=None, grpc="127.0.0.1:0") as server,
        grpc.insecure_channel(str(server.grpc_address)) as channel,
    ):
        calls = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        is_strict(calls, "echo")
        refused = refusal(lambda: calls.ModelInfer(message("echo", "", "fp32")))
    assert refused[0] == grpc.StatusCode.INVALID_ARGUMENT
    assert refused[1].startswith("input 'x' has unknown datatype 'fp32'")


def test_an_absent_version_is_missing_over_rest() -> None:
    with Client(echo, dialect="kserve") as client:
        answer = client.get("/v2/models/echo/versions/7")
    assert (answer.status, answer.error()) == (404, "model 'echo' has no version '7'")


def test_a_dialect_has_its_texts_for_absent_models(stub: Stub) -> None:
    server, calls = stub
    unknown = (grpc.StatusCode.NOT_FOUND, "Model with name nope does not exist.")
    assert refusal(lambda: calls.ModelInfer(message("nope", ""))) == unknown
    assert refusal(lambda: calls.ModelMetadata(service_pb2.ModelMetadataRequest(name="nope"))) == unknown
    server.set_ready("declared", False)
    not_ready = "Model with name declared is not ready."
    assert refusal(lambda: calls.ModelInfer(message("declared", ""))) == (grpc.StatusCode.UNAVAILABLE, not_ready)
    server.set_ready("declared", False, "so far")
    said = refusal(lambda: calls.ModelInfer(message("declared", "")))
    assert said == (grpc.StatusCode.UNAVAILABLE, "Model with name declared is not ready: so far")
    server.set_ready("declared", True)


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
