"""Models that take their own `POST /v2/models/{model}/infer` as it comes, beside others that do not."""

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


@model(name="pieces", routes=["POST /v2/models/pieces/infer"])
def pieces(request: Request) -> Iterator[Any]:
    yield Response("a", content_type="text/event-stream")
    yield "b"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(own, pieces, add, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


@pytest.fixture(params=["http", "in process"])
def http(request: pytest.FixtureRequest, server: Server) -> Iterator[Transport]:
    if request.param == "http":
        yield Rest(server.http_url)
        return
    with Client(own, pieces, add) as client:
        yield InProcess(client)


@pytest.mark.parametrize("body", [b"", b"{}", b"no JSON", b'{"inputs": 1}', json.dumps({"inputs": []}).encode()])
def test_the_body_comes_as_it_is(http: Transport, body: bytes) -> None:
    answer = http.request("POST", f"{PATH}?a=b", body, {"Content-Type": "application/json"})
    assert (answer.status, answer.json()) == (200, {"took": body.decode(), "query": "a=b"})


def test_status_headers_and_pieces_are_the_models(http: Transport) -> None:
    answer = http.request("POST", PATH, b"{}", {"X-Status": "418"})
    assert (answer.status, answer.headers["x-own"], answer.body) == (418, "1", b"own")
    stream = http.request("POST", "/v2/models/pieces/infer", b"{}")
    assert (stream.headers["content-type"], stream.body) == ("text/event-stream", b"ab")


def test_tensors_as_raw_bytes_are_the_servers_to_read(http: Transport) -> None:
    assert (
        served(HttpProtocol("binary", http, binary=True).infer(one("own")), tensor("y", "FP32", [2.0])).model == "own"
    )
    # Formats of arrays are for declared inputs: here they are bodies as any other.
    assert http.request("POST", PATH, b"array", {"Content-Type": "application/x-npy"}).json()["took"] == "array"


def test_tensors_over_grpc_are_the_servers_to_read(server: Server) -> None:
    for typed in (False, True):
        protocol = GrpcProtocol("grpc", server.grpc_url, typed=typed)
        served(protocol.infer(one("own")), tensor("y", "FP32", [2.0]))
        protocol.channel.close()


def test_other_models_and_paths_are_the_servers(http: Transport) -> None:
    for binary in (False, True):
        served(HttpProtocol("http", http, binary=binary).infer(adding()), summed())
    # A pattern takes no inference, though it fits.
    for path in ("/v2/models/own/versions/1/infer", "/v2/models/add/versions/1/infer", "/v2/models/add/infer"):
        assert "inputs" in http.request("POST", path, b"{}").refusal(400)
    assert "'none'" in http.request("POST", "/v2/models/none/infer", b"{}").refusal(404)
    assert http.request("GET", PATH).refusal(405)


def test_the_rules_of_all_requests_hold() -> None:
    limits: Any = {"max_body_bytes": 8, "restricted_access": "inference:key=secret"}
    with Server(own, http="127.0.0.1:0", grpc=None, **limits) as server:
        rest = Rest(server.http_url)
        ask = lambda body: rest.request("POST", PATH, body, {"key": "secret"})  # noqa: E731
        assert "restricted" in rest.request("POST", PATH, b"{}").refusal(403)
        assert ask(b"12345678").status == 200
        assert "at most 8" in ask(b"123456789").refusal(413)


def test_the_path_comes_and_goes_with_the_model() -> None:
    def ask() -> Reply:
        return Rest(server.http_url).request("POST", PATH, b"{}")

    with Server(add, http="127.0.0.1:0", grpc=None) as server:
        assert "'own'" in ask().refusal(404)
        server.add(own)
        assert ask().json()["took"] == "{}"
        server.remove("own")
        assert "'own'" in ask().refusal(404)
        assert "inputs" in Rest(server.http_url).request("POST", "/v2/models/add/infer", b"{}").refusal(400)
