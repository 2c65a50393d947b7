"""Responses of raw-request models: a custom id, and a complete gRPC message."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
import requests
from tritonclient.grpc import service_pb2, service_pb2_grpc

from penstock import Request, Response, Server, model
from waiting import PATIENCE

BODY = {"inputs": [{"name": "x", "shape": [1], "datatype": "INT64", "data": [3]}]}


@model
def named(request: Request) -> Response:
    return Response(outputs=request.tensors, id="custom" if request.id != "keep" else None)


@model
def grpc_message(request: Request) -> Response:
    message = service_pb2.ModelInferResponse(model_name="other", model_version="7", id="custom")
    message.outputs.add(name="y", datatype="INT64", shape=[1]).contents.int64_contents.append(4)
    broken = "broken" in request.parameters
    return Response(b"\xff" if broken else message.SerializeToString(), content_type="application/grpc")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(named, grpc_message, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


def request_message(name: str) -> service_pb2.ModelInferRequest:
    message = service_pb2.ModelInferRequest(model_name=name, id="from the client")
    message.inputs.add(name="x", datatype="INT64", shape=[1])
    message.raw_input_contents.append(np.array([3]).tobytes())
    return message


def stub(server: Server) -> service_pb2_grpc.GRPCInferenceServiceStub:
    return service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(str(server.grpc_address)))


@pytest.mark.parametrize(("sent", "expected"), [({}, "custom"), ({"id": "a"}, "custom"), ({"id": "keep"}, "keep")])
def test_response_may_have_a_custom_id(server: Server, sent: dict[str, str], expected: str) -> None:
    response = requests.post(f"{server.http_url}/v2/models/named/infer", data=json.dumps({**sent, **BODY}), timeout=20)
    assert response.json()["id"] == expected


def test_grpc_response_may_have_a_custom_id(server: Server) -> None:
    assert stub(server).ModelInfer(request_message("named"), timeout=PATIENCE).id == "custom"
    assert Response(outputs={}, id="a").id == "a"
    assert Response(outputs={}).id is None


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
def test_grpc_message_is_sent_unchanged(server: Server, compression: grpc.Compression | None) -> None:
    response, call = stub(server).ModelInfer.with_call(
        request_message("grpc_message"), timeout=PATIENCE, compression=compression
    )
    assert (response.model_name, response.model_version, response.id) == ("other", "7", "custom")
    assert list(response.outputs[0].contents.int64_contents) == [4]
    assert not response.raw_output_contents
    assert "content-type" not in dict(call.initial_metadata())


def test_grpc_message_is_sent_on_streams(server: Server) -> None:
    responses = list(stub(server).ModelStreamInfer(iter([request_message("grpc_message")]), timeout=PATIENCE))
    assert [one.infer_response.id for one in responses] == ["custom"]
    assert list(responses[0].infer_response.outputs[0].contents.int64_contents) == [4]


def test_invalid_grpc_message_is_a_handler_error_on_streams(server: Server) -> None:
    request = request_message("grpc_message")
    request.parameters["broken"].bool_param = True
    (response,) = stub(server).ModelStreamInfer(iter([request]), timeout=PATIENCE)
    assert "not a ModelInferResponse" in response.error_message
