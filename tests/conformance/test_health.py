"""gRPC's health service with gRPC's own client: Check, Watch and List (case D26, T60)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2 as pb
from grpc_health.v1 import health_pb2_grpc
from observe import free_ports

from http_by_hand import infer
from penstock import Server, Tensor, model
from waiting import PATIENCE, Gate, at_once, until

from .protocols import GrpcProtocol

INFERENCE = "inference.GRPCInferenceService"
UNKNOWN, SERVING, NOT_SERVING, SERVICE_UNKNOWN = range(4)


class Watch:
    """A stream of a service's health, which records the statuses received so far."""

    def __init__(self, channel: grpc.Channel, service: str) -> None:
        stub = health_pb2_grpc.HealthStub(channel)
        self.call = stub.Watch(pb.HealthCheckRequest(service=service), wait_for_ready=True)
        self.statuses: list[int] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(grpc.RpcError):
            self.statuses.extend(response.status for response in self.call)

    def await_statuses(self, *statuses: int) -> None:
        """Waits until exactly these statuses were received."""
        until(lambda: len(self.statuses) >= len(statuses), f"{statuses}, so far {self.statuses}")
        assert self.statuses == list(statuses)


@contextmanager
def channel_to(target: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(target) as channel:
        yield channel


@pytest.mark.parametrize("service", ["", INFERENCE, "add", "ver"])
def test_d26_check_and_watch_agree(grpc_raw: GrpcProtocol, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(grpc_raw.channel)
    assert stub.Check(pb.HealthCheckRequest(service=service), timeout=20).status == SERVING
    watch = Watch(grpc_raw.channel, service)
    watch.await_statuses(SERVING)
    watch.call.cancel()


@pytest.mark.trap("T60")
def test_d26_unknown_services_are_watched_as_service_unknown(grpc_raw: GrpcProtocol) -> None:
    # T60: Check refuses it; Watch reports it and waits, as the health protocol requires.
    stub = health_pb2_grpc.HealthStub(grpc_raw.channel)
    with pytest.raises(grpc.RpcError) as refusal:
        stub.Check(pb.HealthCheckRequest(service="nobody"), timeout=20)
    assert (refusal.value.code(), refusal.value.details()) == (grpc.StatusCode.NOT_FOUND, "unknown service 'nobody'")
    watch = Watch(grpc_raw.channel, "nobody")
    watch.await_statuses(SERVICE_UNKNOWN)
    assert watch.call.is_active()
    watch.call.cancel()


def test_d26_list_has_every_service(grpc_raw: GrpcProtocol) -> None:
    # The client library that Triton's client requires does not have List yet.
    call = grpc_raw.channel.unary_unary("/grpc.health.v1.Health/List")
    statuses = dict(entries(call(b"", timeout=20)))
    assert {"", INFERENCE, "add", "ver", "ident_FP32"} <= set(statuses)
    assert set(statuses.values()) == {SERVING}


def entries(message: bytes) -> Iterator[tuple[str, int]]:
    """The services and statuses of a `HealthListResponse` with short names and entries."""
    while message:
        assert message[0] == 1 << 3 | 2
        entry, message = message[2 : 2 + message[1]], message[2 + message[1] :]
        fields: dict[int, bytes] = {}
        while entry:
            fields[entry[0] >> 3], entry = entry[2 : 2 + entry[1]], entry[2 + entry[1] :]
        # A field with its default value is omitted.
        yield fields.get(1, b"").decode(), fields[2][1] if fields.get(2) else UNKNOWN


def test_d26_watch_sees_the_start() -> None:
    """The server is bound before its models are loaded, and reports NOT_SERVING."""
    loaded = threading.Event()

    class Slow:
        def __init__(self) -> None:
            assert loaded.wait(PATIENCE)

        def __call__(self, x: Any) -> Any:
            return x

    address = f"127.0.0.1:{free_ports(1)[0]}"
    tensor = Tensor("x", np.float32, [-1])
    server = Server(model(Slow, name="slow", inputs=[tensor], outputs=[tensor]), http=None, grpc=address)
    (started,) = at_once([server.start])
    with channel_to(address) as channel:
        whole, one = Watch(channel, ""), Watch(channel, "slow")
        whole.await_statuses(NOT_SERVING)
        one.await_statuses(NOT_SERVING)
        loaded.set()
        whole.await_statuses(NOT_SERVING, SERVING)
        one.await_statuses(NOT_SERVING, SERVING)
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
        whole.await_statuses(SERVING)
        one.await_statuses(SERVING)
        (response,) = at_once([lambda: infer(server.http_url, "held", {"x": np.zeros(1, np.float32)})])
        gate.await_entered()
        (stopped,) = at_once([server.stop])
        # While the request still computes: a load balancer must know before the connection ends.
        whole.await_statuses(SERVING, NOT_SERVING)
        one.await_statuses(SERVING, NOT_SERVING)
        gate.open()
        assert response.result(PATIENCE).status == 200
        assert stopped.result(PATIENCE) == []
