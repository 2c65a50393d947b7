"""Client faults not covered by the tests of limits and malformed requests."""

from __future__ import annotations

import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from http_by_hand import binary_body, connect, infer, metric_at
from serving_process import Serving
from waiting import until

from .settled import memory_kb, settled

X = {"x": np.arange(4, dtype=np.float32)}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with Serving("same.py", "--http", "127.0.0.1:0", "--grpc", "off") as server:
        for _ in range(20):
            check_inference(server)
        until(lambda: metric_at(server.http, "penstock_connections") == 1)
        yield server


def check_inference(server: Serving) -> None:
    assert infer(server.http, "same", X).array("y").tolist() == [0, 1, 2, 3]


def reset(sock: socket.socket) -> None:
    """Closes with a reset instead of an end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.mark.fault("leaves before the head")
@pytest.mark.parametrize("sent", [b"", b"P", b"POST /v2/models/same/infer HTTP/1.1\r\nHost: localhost\r\nContent-"])
@pytest.mark.parametrize("leave", [socket.socket.close, reset])
def test_disconnects_before_the_head_is_complete_leak_nothing(sent: bytes, leave: object, server: Serving) -> None:
    requests_before = metric_at(server.http, "penstock_requests_total")
    with settled(server.http, server.process.pid):
        for _ in range(30):
            sock = connect(server.http)
            sock.sendall(sent)
            leave(sock)  # type: ignore[operator]
        check_inference(server)
    assert metric_at(server.http, "penstock_requests_total") == requests_before + 1


@pytest.mark.fault("storm of resets", "leaves in the body", "leaves in compute")
def test_storm_of_resets_leaks_nothing(server: Serving) -> None:
    body, headers = binary_body({"x": np.zeros(50_000, np.float32)})
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = (
        f"POST /v2/models/same/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode()
    )
    whole = head + body
    with settled(server.http, server.process.pid):
        for index in range(300):
            sock = connect(server.http)
            sock.sendall(whole[: len(whole) * (index % 11) // 10])
            reset(sock)
        check_inference(server)
    assert server.process.poll() is None


@pytest.mark.fault("10 000 idle connections")
def test_ten_thousand_idle_connections_use_little_memory() -> None:
    count, (soft, hard) = 10_000, resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 500:
        pytest.skip(f"only {hard} descriptors a process")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with Serving("same.py", "--http", "127.0.0.1:0", "--grpc", "off") as server, ExitStack() as stack:
            check_inference(server)
            before = memory_kb(server.process.pid)
            for index in range(count):
                stack.enter_context(connect(server.http))
                if index % 500 == 499:
                    # No more at a time than the listener's backlog holds.
                    until(lambda index=index: metric_at(server.http, "penstock_connections") >= index)
            began = time.monotonic()
            for _ in range(20):
                check_inference(server)
            assert time.monotonic() - began < 10
            assert memory_kb(server.process.pid) - before < 400_000
            stack.close()
            until(lambda: metric_at(server.http, "penstock_connections") == 1, "all of them to be released")
            check_inference(server)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
