"""HTTP/2 connections that cost a server more than their client: bounded in memory, and everybody else is answered."""

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
    """Sends until all is sent, or the server has had enough. Answers are not read."""
    sock.settimeout(PATIENCE)
    sock.sendall(http2.opening())
    try:
        for piece in frames:
            # What the server answers must go somewhere, or it stops to read, which is a defence too.
            sock.setblocking(False)
            try:
                while sock.recv(1 << 16):
                    pass
            except BlockingIOError:
                pass
            sock.settimeout(2.0)
            sock.sendall(piece)
    except OSError:
        # Closed, reset, or no longer read from: each of them ends the attack.
        return


@pytest.mark.fault("storm of resets")
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_a_flood_costs_little_and_hurts_nobody_else(
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
