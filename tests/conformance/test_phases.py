"""A server that starts, drains or loads a model (cases A3, A4, A15 and D2)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from observe import free_ports
from tritonclient.grpc import service_pb2 as pb

from http_by_hand import connect, read_response
from models.protocol import Gate, slow
from penstock import Server, ServerConfig, Tensor, model
from waiting import at_once, until

from .content import one, tensor
from .protocols import AnyProtocol, GrpcProtocol, HttpProtocol, refused, served
from .transports import Rest


@contextmanager
def starting() -> Iterator[tuple[Rest, GrpcProtocol, threading.Event]]:
    """A server that listens while its model `late` loads, and the event that ends the loading."""
    loaded = threading.Event()

    class Late:
        def __init__(self) -> None:
            assert loaded.wait(20), "the test never released the load"

        def __call__(self, x: np.ndarray) -> np.ndarray:
            return x

    late = model(Late, name="late", inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
    http, target = (f"127.0.0.1:{port}" for port in free_ports(2))
    server = Server(late, config=ServerConfig(http=http, grpc=target))
    (started,) = at_once([server.start])
    protocol = GrpcProtocol("grpc", target, typed=False)
    try:
        until(lambda: listens(http), "the server to listen")
        yield Rest(f"http://{http}"), protocol, loaded
        loaded.set()
        started.result(timeout=20)
    finally:
        loaded.set()
        protocol.channel.close()
        server.stop(0)


def listens(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def until_ready(rest: Rest) -> None:
    until(lambda: rest.request("GET", "/v2/health/ready").status == 200, "the server to be ready")


@pytest.mark.trap("T13")
def test_a3_not_ready_while_it_starts() -> None:
    with starting() as (rest, protocol, loaded):
        reply = rest.request("GET", "/v2/health/ready")
        assert reply.status == 503
        assert reply.json()["ready"] is False
        assert reply.json()["live"] is True
        assert reply.json()["error"]
        assert rest.request("GET", "/v2/health/live").json() == {"live": True}
        assert protocol.stub.ServerLive(pb.ServerLiveRequest(), timeout=20, wait_for_ready=True).live
        assert not protocol.stub.ServerReady(pb.ServerReadyRequest(), timeout=20).ready
        for refusal in (HttpProtocol("rest", rest, binary=False).infer(one("late")), protocol.infer(one("late"))):
            assert refusal.status == 503
            assert "starting" in refusal.message
        loaded.set()
        until_ready(rest)
        assert protocol.stub.ServerReady(pb.ServerReadyRequest(), timeout=20).ready


def test_a15_loading_model() -> None:
    with starting() as (rest, protocol, loaded):
        reply = rest.request("GET", "/v2/models/late/ready")
        assert reply.status == 503
        assert (reply.json()["name"], reply.json()["ready"]) == ("late", False)
        assert "loading" in reply.json()["error"]
        loaded.set()
        until_ready(rest)
        assert rest.request("GET", "/v2/models/late/ready").json() == {"name": "late", "ready": True}
        served(protocol.infer(one("late")), tensor("y", "FP32", [1.0]))


def test_d2_model_ready_of_a_loading_model() -> None:
    with starting() as (rest, protocol, loaded):

        def ready() -> bool:
            request = pb.ModelReadyRequest(name="late")
            return bool(protocol.stub.ModelReady(request, timeout=20, wait_for_ready=True).ready)

        assert ready() is False
        loaded.set()
        until_ready(rest)
        assert ready() is True


@pytest.mark.trap("T59")
def test_d2_model_ready_of_known_and_unknown_models(grpc_raw: GrpcProtocol) -> None:
    ready = grpc_raw.stub.ModelReady
    assert ready(pb.ModelReadyRequest(name="add"), timeout=20).ready is True
    assert ready(pb.ModelReadyRequest(name="ver", version="1"), timeout=20).ready is True
    for unknown in (pb.ModelReadyRequest(name="none"), pb.ModelReadyRequest(name="ver", version="9")):
        # Like Triton 2.51: not an error, and clients wait for the model.
        assert ready(unknown, timeout=20).ready is False


def test_a4_live_but_not_ready_while_it_drains(gate: Gate) -> None:
    with Server(slow, config=ServerConfig(http="127.0.0.1:0", grpc="127.0.0.1:0")) as server:
        rest = Rest(server.http_url)
        protocol: AnyProtocol = HttpProtocol("rest", rest, binary=False)
        (running,) = at_once([lambda: protocol.infer(one("slow", 7.0))])
        gate.await_entered()
        (stopped,) = at_once([server.stop])
        try:
            # Probes come on new connections, and must see the drain.
            until(lambda: rest.request("GET", "/v2/health/ready").status == 503, "the drain to show")
            assert rest.request("GET", "/v2/health/live").json() == {"live": True}
            assert rest.request("GET", "/v2/health/ready").json()["ready"] is False
            refused(protocol.infer(one("slow")), 503, "shutting down")
        finally:
            gate.opened.set()
        served(running.result(timeout=20), tensor("y", "FP32", [7.0]))
        assert stopped.result(timeout=20) == []


def test_a4_first_request_of_a_connection_from_before_the_drain(gate: Gate) -> None:
    # Otherwise a request in transit when the drain begins would be lost.
    with Server(slow, config=ServerConfig(http="127.0.0.1:0", grpc=None, io_threads=1)) as server:
        rest = Rest(server.http_url)
        (running,) = at_once([lambda: HttpProtocol("rest", rest, binary=False).infer(one("slow", 7.0))])
        gate.await_entered()
        with connect(server.http_url) as sock:
            # Connections are accepted in order: once a later one has a response, this one is accepted.
            assert rest.request("GET", "/v2/health/ready").status == 200
            (stopped,) = at_once([server.stop])
            try:
                until(lambda: rest.request("GET", "/v2/health/ready").status == 503, "the drain to show")
                sock.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert read_response(sock).status == 503
            finally:
                gate.opened.set()
        served(running.result(timeout=20), tensor("y", "FP32", [7.0]))
        assert stopped.result(timeout=20) == []
