"""What an answer to a request as it is says of itself: an id of its own; or all of it, as a message of gRPC."""

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
    return Response(outputs=request.tensors, id="its own" if request.id != "keep" else None)


@model
def whole(request: Request) -> Response:
    made = service_pb2.ModelInferResponse(model_name="other", model_version="7", id="its own")
    made.outputs.add(name="y", datatype="INT64", shape=[1]).contents.int64_contents.append(4)
    broken = "broken" in request.parameters
    return Response(b"\xff" if broken else made.SerializeToString(), content_type="application/grpc")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(named, whole, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


def message(name: str) -> service_pb2.ModelInferRequest:
    made = service_pb2.ModelInferRequest(model_name=name, id="of the caller")
    made.inputs.add(name="x", datatype="INT64", shape=[1])
    made.raw_input_contents.append(np.array([3]).tobytes())
    return made


def stub(server: Server) -> service_pb2_grpc.GRPCInferenceServiceStub:
    return service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(str(server.grpc_address)))


@pytest.mark.parametrize(("sent", "expected"), [({}, "its own"), ({"id": "a"}, "its own"), ({"id": "keep"}, "keep")])
def test_an_answer_may_have_an_id_of_its_own(server: Server, sent: dict[str, str], expected: str) -> None:
    answer = requests.post(f"{server.http_url}/v2/models/named/infer", data=json.dumps({**sent, **BODY}), timeout=20)
    assert answer.json()["id"] == expected


def test_an_answer_over_grpc_may_have_an_id_of_its_own(server: Server) -> None:
    assert stub(server).ModelInfer(message("named"), timeout=PATIENCE).id == "its own"
    assert Response(outputs={}, id="a").id == "a"
    assert Response(outputs={}).id is None


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
def test_a_message_of_grpc_is_sent_as_it_is(server: Server, compression: grpc.Compression | None) -> None:
    answer, call = stub(server).ModelInfer.with_call(message("whole"), timeout=PATIENCE, compression=compression)
    assert (answer.model_name, answer.model_version, answer.id) == ("other", "7", "its own")
    assert list(answer.outputs[0].contents.int64_contents) == [4]
    assert not answer.raw_output_contents
    assert "content-type" not in dict(call.initial_metadata())


def test_a_message_of_grpc_is_sent_on_streams_too(server: Server) -> None:
    answers = list(stub(server).ModelStreamInfer(iter([message("whole")]), timeout=PATIENCE))
    assert [one.infer_response.id for one in answers] == ["its own"]
    assert list(answers[0].infer_response.outputs[0].contents.int64_contents) == [4]


def test_what_is_no_message_is_the_handlers_fault_on_streams(server: Server) -> None:
    asked = message("whole")
    asked.parameters["broken"].bool_param = True
    (answer,) = stub(server).ModelStreamInfer(iter([asked]), timeout=PATIENCE)
    assert "not a ModelInferResponse" in answer.error_message
