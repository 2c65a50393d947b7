"""gRPC's health service, asked by gRPC's own client: Check, Watch and List (case D26, T60)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2 as pb
from grpc_health.v1 import health_pb2_grpc

from http_by_hand import infer
from penstock import Server, Tensor, model
from waiting import PATIENCE, Gate, at_once, until

from .protocols import GrpcProtocol

INFERENCE = "inference.GRPCInferenceService"
UNKNOWN, SERVING, NOT_SERVING, SERVICE_UNKNOWN = range(4)


class Watch:
    """A stream of a service's health. Unlike the client's own iterator it may be asked what came so far."""

    def __init__(self, channel: grpc.Channel, service: str) -> None:
        stub = health_pb2_grpc.HealthStub(channel)
        self.call = stub.Watch(pb.HealthCheckRequest(service=service), wait_for_ready=True)
        self.seen: list[int] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(grpc.RpcError):
            self.seen.extend(answer.status for answer in self.call)

    def sees(self, *statuses: int) -> None:
        """Waits until it has seen these, and nothing else."""
        until(lambda: len(self.seen) >= len(statuses), f"{statuses}, so far {self.seen}")
        assert self.seen == list(statuses)


@contextmanager
def channel_to(target: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(target) as channel:
        yield channel


@pytest.mark.parametrize("service", ["", INFERENCE, "add", "ver"])
def test_d26_check_and_watch_agree(grpc_raw: GrpcProtocol, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(grpc_raw.channel)
    assert stub.Check(pb.HealthCheckRequest(service=service), timeout=20).status == SERVING
    watch = Watch(grpc_raw.channel, service)
    watch.sees(SERVING)
    watch.call.cancel()


@pytest.mark.trap("T60")
def test_d26_what_is_not_there_is_watched_as_unknown(grpc_raw: GrpcProtocol) -> None:
    # T60: Check refuses it, and Watch says so and waits, as the health protocol has it.
    stub = health_pb2_grpc.HealthStub(grpc_raw.channel)
    with pytest.raises(grpc.RpcError) as refusal:
        stub.Check(pb.HealthCheckRequest(service="nobody"), timeout=20)
    assert (refusal.value.code(), refusal.value.details()) == (grpc.StatusCode.NOT_FOUND, "unknown service 'nobody'")
    watch = Watch(grpc_raw.channel, "nobody")
    watch.sees(SERVICE_UNKNOWN)
    assert watch.call.is_active()
    watch.call.cancel()


def test_d26_list_tells_of_all(grpc_raw: GrpcProtocol) -> None:
    # The client's library that goes with Triton's has no List yet.
    call = grpc_raw.channel.unary_unary("/grpc.health.v1.Health/List")
    statuses = dict(entries(call(b"", timeout=20)))
    assert {"", INFERENCE, "add", "ver", "ident_FP32"} <= set(statuses)
    assert set(statuses.values()) == {SERVING}


def entries(message: bytes) -> Iterator[tuple[str, int]]:
    """The services and statuses of a `HealthListResponse`, whose names and entries are all short."""
    while message:
        assert message[0] == 1 << 3 | 2
        entry, message = message[2 : 2 + message[1]], message[2 + message[1] :]
        fields: dict[int, bytes] = {}
        while entry:
            fields[entry[0] >> 3], entry = entry[2 : 2 + entry[1]], entry[2 + entry[1] :]
        # A field that has its default is left out.
        yield fields.get(1, b"").decode(), fields[2][1] if fields.get(2) else UNKNOWN


def test_d26_watch_sees_the_start() -> None:
    """The server is bound before its models are loaded, and says so."""
    loaded = threading.Event()

    class Slow:
        def __init__(self) -> None:
            assert loaded.wait(PATIENCE)

        def __call__(self, x: Any) -> Any:
            return x

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*free.getsockname())
    tensor = Tensor("x", np.float32, [-1])
    server = Server(model(Slow, name="slow", inputs=[tensor], outputs=[tensor]), http=None, grpc=address)
    (started,) = at_once([server.start])
    with channel_to(address) as channel:
        whole, one = Watch(channel, ""), Watch(channel, "slow")
        whole.sees(NOT_SERVING)
        one.sees(NOT_SERVING)
        loaded.set()
        whole.sees(NOT_SERVING, SERVING)
        one.sees(NOT_SERVING, SERVING)
    started.result(PATIENCE)
    server.stop()


def test_d26_watch_sees_the_drain() -> None:
    gate = Gate()

    def held(x: Any) -> Any:
        gate.enter()
        return x

    tensor = Tensor("x", np.float32, [-1])
    server = Server(
        model(held, name="held", inputs=[tensor], outputs=[tensor]), http="127.0.0.1:0", grpc="127.0.0.1:0"
    ).start()
    with channel_to(server.grpc_url) as channel:
        whole, one = Watch(channel, ""), Watch(channel, "held")
        whole.sees(SERVING)
        one.sees(SERVING)
        (answer,) = at_once([lambda: infer(server.http_url, "held", {"x": np.zeros(1, np.float32)})])
        gate.await_entered()
        (stopped,) = at_once([server.stop])
        # While the request still computes: whoever balances load must know before the connection ends.
        whole.sees(SERVING, NOT_SERVING)
        one.sees(SERVING, NOT_SERVING)
        gate.open()
        assert answer.result(PATIENCE).status == 200
        assert stopped.result(PATIENCE) == []
