"""The header `grpc-timeout` over REST: the deadline that gateways of gRPC pass on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import Answer, post
from penstock import Context, Server, model
from waiting import Gate, until

INFER = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [], "data": [4]}]}
ROUTES = {
    "v2/models/slow/infer": INFER,
    "v2/models/slow/generate": {"n": 4},
    "v1/models/slow:predict": {"instances": [{"n": 4}]},
}


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def server(gate: Gate) -> Iterator[Server]:
    @model(name="slow")
    def slow(n: int, ctx: Context) -> int:
        if n == 4:
            gate.enter()
            until(lambda: ctx.cancelled)
        return n

    with Server(slow, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        gate.open()
        yield server


def ask(server: Server, route: str, body: object, timeout: str) -> Answer:
    return post(server.http_url, f"/{route}", json.dumps(body).encode(), {"grpc-timeout": timeout})


@pytest.mark.parametrize("route", ROUTES)
def test_who_is_over_it_is_told_so(server: Server, route: str) -> None:
    answer = ask(server, route, ROUTES[route], "150m")
    assert answer.status == 504
    assert "deadline" in answer.error()


@pytest.mark.parametrize("route", ROUTES)
def test_what_is_no_duration_is_refused(server: Server, route: str) -> None:
    answer = ask(server, route, ROUTES[route], "150 ms")
    expected = "header 'grpc-timeout' must be one to eight digits and one of the units H M S m u n, got '150 ms'"
    assert (answer.status, answer.error()) == (400, expected)


@pytest.mark.parametrize(("header", "parameter"), [("150m", 60_000_000), ("1M", 150_000), ("1M", None)])
def test_the_soonest_deadline_counts(server: Server, header: str, parameter: int | None) -> None:
    number = 4 if parameter else 5
    body = {"inputs": [{**INFER["inputs"][0], "data": [number]}]}
    if parameter:
        body["parameters"] = {"timeout": parameter}  # type: ignore[assignment]
    assert ask(server, "v2/models/slow/infer", body, header).status == (504 if parameter else 200)


def over_grpc(server: Server, **how: Any) -> Any:
    request = service_pb2.ModelInferRequest(model_name="slow", raw_input_contents=[np.int64(4).tobytes()])
    request.inputs.add(name="n", datatype="INT64", shape=[])
    if (micros := how.pop("micros", None)) is not None:
        request.parameters["timeout"].int64_param = micros
    with grpc.insecure_channel(server.grpc_url) as channel, pytest.raises(grpc.RpcError) as raised:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, **how)
    return raised.value


def test_over_grpc_it_is_the_callers_own(server: Server) -> None:
    assert over_grpc(server, timeout=0.15).code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_over_grpc_the_text_begins_as_grpcs_own(server: Server) -> None:
    error = over_grpc(server, micros=150_000)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    # Which clients look for.
    assert error.details() == "Deadline Exceeded: model 'slow' did not answer within the deadline"
