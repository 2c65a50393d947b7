"""HTTP/2 floods: memory stays bounded, and other clients are served."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import http2_by_hand as http2
from http_by_hand import connect, infer, metric_at
from serving_process import Serving
from waiting import PATIENCE, until


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with Serving("same.py", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0") as server:
        yield server


def rapid_reset() -> Iterator[bytes]:
    for index in range(20_000):
        stream = 2 * index + 1
        yield http2.infer_headers(stream) + http2.frame(http2.RST_STREAM, stream, b"\0\0\0\x08")


def empty_data() -> Iterator[bytes]:
    yield http2.infer_headers(1)
    for _ in range(1000):
        yield http2.frame(http2.DATA, 1) * 100


def continuation_flood() -> Iterator[bytes]:
    yield http2.infer_headers(1, flags=0)
    filler = http2.block({"x": "y" * 100}) * 100
    for _ in range(5000):
        yield http2.frame(http2.CONTINUATION, 1, filler)


def empty_continuations() -> Iterator[bytes]:
    yield http2.infer_headers(1, flags=0)
    for _ in range(1000):
        yield http2.frame(http2.CONTINUATION, 1) * 100


def pings() -> Iterator[bytes]:
    for _ in range(1000):
        yield http2.frame(http2.PING, 0, bytes(8)) * 100


def settings() -> Iterator[bytes]:
    for _ in range(1000):
        yield http2.frame(http2.SETTINGS, 0, b"\0\x03\0\0\0\x64") * 100


def window_updates() -> Iterator[bytes]:
    yield http2.infer_headers(1)
    for _ in range(1000):
        yield http2.frame(http2.WINDOW_UPDATE, 1, b"\0\0\0\x01") * 100


def streams_without_end() -> Iterator[bytes]:
    for index in range(20_000):
        yield http2.infer_headers(2 * index + 1)


def forbidden_data() -> Iterator[bytes]:
    for index in range(1000):
        yield http2.frame(http2.DATA, 2 * index + 1, bytes(100))


ATTACKS = [
    rapid_reset,
    empty_data,
    continuation_flood,
    empty_continuations,
    pings,
    settings,
    window_updates,
    streams_without_end,
    forbidden_data,
]


def memory_kb(process: int) -> int:
    (line,) = [line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


def send(sock: socket.socket, frames: Iterator[bytes]) -> None:
    """Sends all frames, or until the server stops the attack. Responses are discarded."""
    sock.settimeout(PATIENCE)
    sock.sendall(http2.opening())
    try:
        for data in frames:
            # Responses must be drained, or the server stops reading, which is a defence too.
            sock.setblocking(False)
            try:
                while sock.recv(1 << 16):
                    pass
            except BlockingIOError:
                pass
            sock.settimeout(2.0)
            sock.sendall(data)
    except OSError:
        # A close, a reset and a stalled connection each end the attack.
        return


@pytest.mark.fault("storm of resets")
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_http2_flood_is_bounded_and_other_clients_are_served(
    attack: Callable[[], Iterator[bytes]], transport: str, server: Serving
) -> None:
    url = server.http if transport == "http" else f"http://{server.grpc}"
    x = {"x": np.ones(4, np.float32)}
    assert infer(server.http, "same", x).status == 200
    before = memory_kb(server.process.pid)
    with connect(url) as sock:
        send(sock, attack())
        assert infer(server.http, "same", x).array("y").tolist() == [1] * 4
        assert memory_kb(server.process.pid) - before < 48_000
    until(lambda: metric_at(server.http, "penstock_connections") == 1, "the connection to be given up")
    assert infer(server.http, "same", x).status == 200
    assert server.process.poll() is None
