"""Full queues, deadlines and disconnects (cases B65 to B67, D23 and D25)."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import grpc
import pytest

from http_by_hand import connect, metric
from models.protocol import Gate, slow
from penstock import Server, ServerConfig
from penstock.testing import Client
from waiting import at_once, until

from .content import InferResponse, one, tensor
from .protocols import BINARY, JSON, AnyProtocol, GrpcProtocol, HttpProtocol, on_all, on_grpc, refused, served
from .transports import InProcess, Rest, Transport, infer

HTTP = pytest.mark.parametrize("protocol", [*JSON, *BINARY], indirect=True)
FULL = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [3]}]}


def waiting(transport: Transport) -> float:
    return metric(transport.request("GET", "/metrics").body.decode(), "penstock_queue_depth", model="slow")


@contextmanager
def full_queue(protocol: AnyProtocol, gate: Gate, transport: Transport) -> Iterator[None]:
    """One request runs and one waits; both must be answered at the end."""
    running, queued = (one("slow", 1.0), one("slow", 2.0))
    futures: list[Future[InferResponse]] = at_once([lambda: protocol.infer(running)])
    gate.await_entered()
    futures += at_once([lambda: protocol.infer(queued)])
    try:
        until(lambda: waiting(transport) == 1, "a request in the queue")
        yield
    finally:
        gate.opened.set()
        for future in futures:
            future.exception(timeout=20)
    for future, value in zip(futures, (1.0, 2.0), strict=True):
        served(future.result(timeout=20), tensor("y", "FP32", [value]))


@pytest.fixture
def transport(protocol: AnyProtocol, rest: Rest, in_process: InProcess) -> Transport:
    return in_process if protocol.name.startswith("in-process") else rest


@HTTP
def test_b65_full_queue(protocol: HttpProtocol, gate: Gate, transport: Transport) -> None:
    with full_queue(protocol, gate, transport):
        refused(protocol.infer(one("slow", 3.0)), 429, "'slow'", "maximum of 1 requests waiting")
        reply = infer(transport, "slow", FULL)
        reply.refusal(429)
        assert int(reply.headers["retry-after"]) >= 1
    assert 3.0 not in gate.seen


@on_grpc
def test_d25_full_queue(protocol: GrpcProtocol, gate: Gate, transport: Transport) -> None:
    with full_queue(protocol, gate, transport):
        with pytest.raises(grpc.RpcError) as refusal:
            protocol.stub.ModelInfer(protocol.message(one("slow", 3.0)), timeout=20)
        assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "'slow'" in refusal.value.details()
        metadata = dict([*refusal.value.initial_metadata(), *refusal.value.trailing_metadata()])
        assert int(metadata["retry-after"]) >= 1
    assert 3.0 not in gate.seen


@pytest.mark.trap("T38")
def test_b65_full_queue_as_503(gate: Gate) -> None:
    with Client(slow, dialect="triton") as client:
        transport = InProcess(client)
        with full_queue(HttpProtocol("http", transport, binary=False), gate, transport):
            reply = infer(transport, "slow", FULL)
            assert "'slow'" in reply.refusal(503)
            assert int(reply.headers["retry-after"]) >= 1


@pytest.mark.trap("T38")
def test_d25_full_queue_as_unavailable(gate: Gate) -> None:
    config = ServerConfig(http="127.0.0.1:0", grpc="127.0.0.1:0", dialect="triton")
    with Server(slow, config=config) as server:
        protocol, rest = GrpcProtocol("grpc", server.grpc_url, typed=False), Rest(server.http_url)
        with full_queue(protocol, gate, rest):
            refused(protocol.infer(one("slow", 3.0)), 503, "'slow'")
            infer(rest, "slow", FULL).refusal(503)
        protocol.channel.close()


@on_all
def test_b65_the_queue_is_free_again(protocol: AnyProtocol, gate: Gate, transport: Transport) -> None:
    with full_queue(protocol, gate, transport):
        refused(protocol.infer(one("slow", 3.0)), 429)
    served(protocol.infer(one("slow", 4.0)), tensor("y", "FP32", [4.0]))


@on_all
def test_b66_timeout_while_it_runs(protocol: AnyProtocol, gate: Gate) -> None:
    # The handler waits until the gate opens, which is after the response.
    refused(protocol.infer(one("slow", parameters={"timeout": 1000})), 504, "'slow'", "deadline")
    until(lambda: gate.cancelled.is_set() or not gate.seen, "the handler to be cancelled")


@on_all
def test_b66_timeout_while_it_waits(protocol: AnyProtocol, gate: Gate) -> None:
    (running,) = at_once([lambda: protocol.infer(one("slow", 1.0))])
    gate.await_entered()
    refused(protocol.infer(one("slow", 2.0, parameters={"timeout": 1000})), 504, "'slow'", "deadline")
    gate.opened.set()
    served(running.result(timeout=20), tensor("y", "FP32", [1.0]))
    served(protocol.infer(one("slow", 3.0)), tensor("y", "FP32", [3.0]))
    assert gate.seen == [1.0, 3.0]


@on_all
def test_b66_unreached_timeout(protocol: AnyProtocol) -> None:
    served(protocol.infer(one("ident_FP32", parameters={"timeout": 20_000_000})), tensor("y", "FP32", [1.0]))
    served(protocol.infer(one("ident_FP32", parameters={"timeout": 0})), tensor("y", "FP32", [1.0]))


@pytest.mark.trap("T38")
@on_grpc
def test_d23_deadline(protocol: GrpcProtocol, gate: Gate) -> None:
    start = time.monotonic()
    refused(protocol.infer_within(one("slow"), 0.05), 504)
    assert time.monotonic() - start < 10
    gate.await_entered()
    # The client has its own timeout; the handler shows that the server cancelled too.
    assert gate.cancelled.wait(20), "the handler was not cancelled"


def test_b67_client_disconnects_in_the_queue(
    rest: Rest, server: Server, protocols: dict[str, AnyProtocol], gate: Gate
) -> None:
    (running,) = at_once([lambda: protocols["rest-json"].infer(one("slow", 1.0))])
    gate.await_entered()
    before = abandoned(rest)
    sock = connect(server.http_url)
    body = json.dumps(FULL).encode()
    sock.sendall(
        b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    until(lambda: waiting(rest) == 1, "the request in the queue")
    sock.shutdown(socket.SHUT_RDWR)
    sock.close()
    leave_and_check(rest, running, protocols["rest-json"], gate, before)


def test_b67_grpc_client_cancels_in_the_queue(rest: Rest, grpc_raw: GrpcProtocol, gate: Gate) -> None:
    (running,) = at_once([lambda: grpc_raw.infer(one("slow", 1.0))])
    gate.await_entered()
    before = abandoned(rest)
    call = grpc_raw.stub.ModelInfer.future(grpc_raw.message(one("slow", 3.0)), timeout=20)
    until(lambda: waiting(rest) == 1, "the request in the queue")
    call.cancel()
    leave_and_check(rest, running, grpc_raw, gate, before)


def leave_and_check(
    rest: Rest, running: Future[InferResponse], protocol: AnyProtocol, gate: Gate, before: float
) -> None:
    until(lambda: in_flight(rest) == 1, "the server to notice")
    gate.opened.set()
    served(running.result(timeout=20), tensor("y", "FP32", [1.0]))
    served(protocol.infer(one("slow", 5.0)), tensor("y", "FP32", [5.0]))
    assert gate.seen == [1.0, 5.0]
    assert abandoned(rest) == before + 1


def abandoned(rest: Rest) -> float:
    return metric(rest.request("GET", "/metrics").body.decode(), "penstock_abandoned_total", model="slow")


def in_flight(rest: Rest) -> float:
    return metric(rest.request("GET", "/metrics").body.decode(), "penstock_in_flight", model="slow")
