"""The header `grpc-timeout` over REST: the deadline that gRPC gateways forward."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import HttpResponse, post
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


def post_with_timeout(server: Server, route: str, body: object, timeout: str) -> HttpResponse:
    return post(server.http_url, f"/{route}", json.dumps(body).encode(), {"grpc-timeout": timeout})


@pytest.mark.parametrize("route", ROUTES)
def test_exceeded_grpc_timeout_returns_504(server: Server, route: str) -> None:
    response = post_with_timeout(server, route, ROUTES[route], "150m")
    assert response.status == 504
    assert "deadline" in response.error()


@pytest.mark.parametrize("route", ROUTES)
def test_invalid_durations_are_rejected(server: Server, route: str) -> None:
    response = post_with_timeout(server, route, ROUTES[route], "150 ms")
    expected = "header 'grpc-timeout' must be one to eight digits and one of the units H M S m u n, got '150 ms'"
    assert (response.status, response.error()) == (400, expected)


@pytest.mark.parametrize(("header", "parameter"), [("150m", 60_000_000), ("1M", 150_000), ("1M", None)])
def test_earliest_deadline_applies(server: Server, header: str, parameter: int | None) -> None:
    number = 4 if parameter else 5
    body = {"inputs": [{**INFER["inputs"][0], "data": [number]}]}
    if parameter:
        body["parameters"] = {"timeout": parameter}  # type: ignore[assignment]
    assert post_with_timeout(server, "v2/models/slow/infer", body, header).status == (504 if parameter else 200)


def over_grpc(server: Server, **options: Any) -> Any:
    request = service_pb2.ModelInferRequest(model_name="slow", raw_input_contents=[np.int64(4).tobytes()])
    request.inputs.add(name="n", datatype="INT64", shape=[])
    if (micros := options.pop("micros", None)) is not None:
        request.parameters["timeout"].int64_param = micros
    with grpc.insecure_channel(server.grpc_url) as channel, pytest.raises(grpc.RpcError) as raised:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, **options)
    return raised.value


def test_grpc_deadline_ends_the_call_in_the_client(server: Server) -> None:
    assert over_grpc(server, timeout=0.15).code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_grpc_deadline_message_starts_like_grpcs(server: Server) -> None:
    error = over_grpc(server, micros=150_000)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    # Clients check for this prefix.
    assert error.details() == "Deadline Exceeded: model 'slow' did not answer within the deadline"
