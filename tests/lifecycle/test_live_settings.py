"""Live settings: for each one, a server takes over its change at SIGHUP, without a restart."""

from __future__ import annotations

import gzip
import json
import re
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from configured_server import Configured, configured
from http_by_hand import connect, get, infer, is_closed, json_body, metric_at, post, read_response
from waiting import PATIENCE, at_once, until

CODE = """
import time
from collections.abc import Iterator
from pathlib import Path
import numpy as np
from penstock import Context, Tensor, model

X, Y = [Tensor("x", np.float32, [-1])], [Tensor("y", np.float32, [-1])]

@model(inputs=X, outputs=Y)
def same(x, ctx: Context):
    ctx.log.info("a line of the handler")
    return x

@model(inputs=X, outputs=Y)
def held(x):
    Path("entered").touch()
    until = time.monotonic() + 60
    while not Path("go").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return x

@model(inputs=[Tensor("n", np.int32, [])], outputs=[Tensor("i", np.int32, [])], streams=True)
def count(n) -> Iterator[int]:
    for i in range(int(n)):
        yield i
        time.sleep(0.1)
"""

BODY = json_body({"x": np.zeros(100, np.float32)})
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
INFER = f"POST /v2/models/same/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY


@pytest.fixture
def serve(tmp_path: Path) -> Any:
    """Starts a server with these settings in its file; stops it at the end."""
    with ExitStack() as servers:

        def start(*arguments: str, **settings: object) -> Configured:
            return servers.enter_context(configured(tmp_path, CODE, *arguments, **settings))

        yield start


Serve = Callable[..., Configured]


def send(one: Configured, body: bytes = BODY, **headers: str) -> Any:
    return post(one.url, "/v2/models/same/infer", body, headers)


def start_body(one: Configured) -> socket.socket:
    """A connection that has sent the head of a request and the start of its body."""
    sock = connect(one.url)
    sock.sendall(b"POST /v2/models/same/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{")
    return sock


def hold(one: Configured) -> Any:
    """A request that its handler holds."""
    (running,) = at_once([lambda: infer(one.url, "held", {"x": np.zeros(1, np.float32)})])
    until((one.path.parent / "entered").exists, "the request in the handler")
    return running


def release(one: Configured) -> None:
    (one.path.parent / "go").touch()


@pytest.mark.live_setting("max_body_bytes")
def test_max_body_bytes(serve: Serve) -> None:
    one = serve()
    with connect(one.url) as sock:
        sock.sendall(INFER)
        assert read_response(sock).status == 200
        one.reload(max_body_bytes=100)
        # Requests of an open connection too.
        sock.sendall(INFER)
        refused = read_response(sock)
    expected = f"the request's body has {len(BODY)} bytes, at most 100 are accepted"
    assert (refused.status, refused.error()) == (413, expected)


@pytest.mark.live_setting("max_inflight_bytes")
def test_max_inflight_bytes(serve: Serve) -> None:
    one = serve()
    assert send(one).status == 200
    one.reload(max_inflight_bytes=100)
    assert send(one).status == 429
    assert metric_at(one.url, "penstock_body_limit_bytes") == 100


@pytest.mark.live_setting("max_inflate_ratio")
def test_max_inflate_ratio(serve: Serve) -> None:
    one = serve()
    body = gzip.compress(BODY + b" " * (4 << 20))
    assert send(one, body, **{"Content-Encoding": "gzip"}).status == 413
    one.reload(max_inflate_ratio=100_000)
    assert send(one, body, **{"Content-Encoding": "gzip"}).status == 200


@pytest.mark.live_setting("max_json_depth")
def test_max_json_depth(serve: Serve) -> None:
    one = serve()
    body = json_body({"x": np.zeros(1, np.float32)}, unknown=[[[[[0]]]]])
    assert send(one, body).status == 200
    one.reload(max_json_depth=4)
    refused = send(one, body)
    assert refused.status == 400
    assert "4" in refused.error()


@pytest.mark.live_setting("header_timeout")
def test_header_timeout(serve: Serve) -> None:
    one = serve(header_timeout=0)
    with connect(one.url) as sock:
        sock.sendall(LIVE[:20])
        one.reload(header_timeout=0.5)
        assert is_closed(sock), "one that is open is closed too"


@pytest.mark.live_setting("idle_timeout")
def test_idle_timeout(serve: Serve) -> None:
    one = serve(idle_timeout=0)
    with connect(one.url) as sock:
        sock.sendall(LIVE)
        assert read_response(sock).status == 200
        one.reload(idle_timeout=0.5)
        assert is_closed(sock), "one that is open is closed too"


@pytest.mark.live_setting("body_timeout")
def test_body_timeout(serve: Serve) -> None:
    one = serve(body_timeout=0, min_body_rate=0)
    one.reload(body_timeout=0.5, min_body_rate=0)
    with start_body(one) as sock:
        refused = read_response(sock)
    assert (refused.status, refused.error()) == (408, "no more of the body came for 500ms")


@pytest.mark.live_setting("min_body_rate")
def test_min_body_rate(serve: Serve) -> None:
    one = serve(body_timeout=0, min_body_rate=0)
    one.reload(body_timeout=0, min_body_rate=1000)
    with start_body(one) as sock:
        refused = read_response(sock)
    assert (refused.status, refused.error()) == (408, "the body came at 0 B/s; 1000 are needed")


@pytest.mark.live_setting("write_timeout")
def test_write_timeout(serve: Serve) -> None:
    one = serve(write_timeout=0)
    body = json_body({"x": np.zeros(2 << 20, np.float32)})
    head = f"POST /v2/models/same/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with connect(one.url) as sock:
        sock.sendall(head + body)
        until(lambda: metric_at(one.url, "penstock_requests_total", model="same", outcome="ok") == 1)
        assert metric_at(one.url, "penstock_connections") == 2
        one.reload(write_timeout=0.5)
        until(lambda: metric_at(one.url, "penstock_connections") == 1, "the connection to be closed")


@pytest.mark.live_setting("max_connections")
def test_max_connections(serve: Serve) -> None:
    one = serve()
    with connect(one.url) as first, connect(one.url) as second:
        for sock in (first, second):
            sock.sendall(LIVE)
            assert read_response(sock).status == 200
        one.reload(max_connections=2)
        with connect(one.url) as third:
            assert is_closed(third)
        first.sendall(LIVE)
        assert read_response(first).status == 200, "those that are open stay"


@pytest.mark.live_setting("max_connections_per_address")
def test_max_connections_per_address(serve: Serve) -> None:
    one = serve()
    with connect(one.url) as first, connect(one.url) as second:
        for sock in (first, second):
            sock.sendall(LIVE)
            assert read_response(sock).status == 200
        one.reload(max_connections_per_address=2)
        with connect(one.url) as third:
            assert is_closed(third), "connections that were opened before the limit count too"


@pytest.mark.live_setting("max_connection_age")
def test_max_connection_age(serve: Serve) -> None:
    one = serve()
    with connect(one.url) as sock:

        def is_last() -> bool:
            sock.sendall(LIVE)
            return read_response(sock).headers.get("connection") == "close"

        assert not is_last()
        one.reload(max_connection_age=0.5)
        until(is_last, "the last response")
        assert is_closed(sock)


@pytest.mark.live_setting("max_connection_age_grace")
def test_max_connection_age_grace(serve: Serve) -> None:
    one = serve(max_connection_age=0.1, max_connection_age_grace=0)
    body = json_body({"x": np.zeros(1, np.float32)})
    with connect(one.url) as sock:
        sock.sendall(
            f"POST /v2/models/held/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        until((one.path.parent / "entered").exists, "the request in the handler")
        # The old instance holds the request; its replacement is ready all the same.
        one.reload(max_connection_age=0.1, max_connection_age_grace=0.5)
        assert is_closed(sock), "one that is open is closed too"
    release(one)


@pytest.mark.live_setting("tls_handshake_timeout")
def test_tls_handshake_timeout(serve: Serve, tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "a.pem")
    issued.private_key_pem.write_to_path(tmp_path / "a.key")
    files = {"tls_certificate": str(tmp_path / "a.pem"), "tls_key": str(tmp_path / "a.key")}
    one = serve(tls_handshake_timeout=0, **files)
    one.reload(tls_handshake_timeout=0.5, **files)
    host, _, port = one.url.removeprefix("https://").rpartition(":")
    with closing(socket.create_connection((host, int(port)), PATIENCE)) as sock:
        sock.sendall(b"\x16")
        assert is_closed(sock)


@pytest.mark.live_setting("request_timeout")
def test_request_timeout(serve: Serve) -> None:
    one = serve()
    one.reload(request_timeout=0.5)
    assert infer(one.url, "held", {"x": np.zeros(1, np.float32)}).status == 504
    release(one)


@pytest.mark.live_setting("flush_interval")
def test_flush_interval(serve: Serve) -> None:
    one = serve()

    def chunks() -> list[list[int]]:
        body = json.dumps({"n": 5}).encode()
        found = []
        with connect(one.url) as sock, sock.makefile("rb") as file:
            head = "POST /v2/models/count/generate_stream HTTP/1.1\r\nHost: localhost\r\n"
            sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            while file.readline().strip():
                pass
            while size := int(file.readline(), 16):
                found.append([int(number) for number in re.findall(rb'"i":(\d+)', file.read(size + 2))])
        return found

    # A busy machine may join some.
    assert len(chunks()) > 2
    one.reload(flush_interval=3600)
    assert chunks() == [[0], [1, 2, 3, 4]]


def stream_of(one: Configured, n: int) -> tuple[bytes, bytes]:
    """Head and body of an event stream, in chunks as sent."""
    body = json.dumps({"n": n}).encode()
    head = "POST /v2/models/count/generate_stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    with connect(one.url) as sock, sock.makefile("rb") as file:
        sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        received, _, events = file.read().partition(b"\r\n\r\n")
    return received, events


@pytest.mark.live_setting("stream_keepalive")
def test_stream_keepalive(serve: Serve) -> None:
    one = serve()
    assert b": keep-alive" not in stream_of(one, 3)[1]
    one.reload(stream_keepalive=0.01)
    assert b": keep-alive\n\n" in stream_of(one, 3)[1]


@pytest.mark.live_setting("stream_resume")
def test_stream_resume(serve: Serve) -> None:
    one = serve()
    assert b"x-stream-id" not in stream_of(one, 1)[0]
    one.reload(stream_resume=60)
    head, events = stream_of(one, 1)
    assert b"x-stream-id: " in head
    assert b"retry: 1000\nid: " in events


@pytest.mark.live_setting("drain_delay")
def test_drain_delay(serve: Serve) -> None:
    one = serve()
    one.reload(drain_delay=600)
    one.server.signal(signal.SIGTERM)
    one.server.await_stderr("penstock: stopping: not ready, and serves for 600 s more")
    assert get(one.url, "/v2/health/ready").status == 503
    assert send(one).status == 200
    one.server.signal(signal.SIGTERM)
    assert one.server.exit_status() in (0, 3)


@pytest.mark.live_setting("drain_timeout")
def test_drain_timeout(serve: Serve) -> None:
    one = serve(drain_timeout=3600)
    running = hold(one)
    one.reload(drain_timeout=0.5)
    one.server.signal(signal.SIGTERM)
    # The request is cut off, and the process does not wait for its handler.
    assert one.server.exit_status() == 3
    assert "penstock: cut off: held (version 1): 1 requests" in one.server.err
    running.exception(PATIENCE)


@pytest.mark.live_setting("access_log")
def test_access_log(serve: Serve) -> None:
    one = serve()
    assert send(one).status == 200
    one.reload(access_log="json")
    assert send(one).status == 200
    one.server.await_stderr('"model":"same"')
    one.reload(access_log="text")
    assert send(one).status == 200
    one.server.await_stderr(" http same/1 200 ok ")
    lines = len(re.findall('same/1 200|"model":"same"', one.server.err))
    one.reload(access_log="off")
    assert send(one).status == 200
    one.server.signal(signal.SIGTERM)
    assert one.server.exit_status() == 0
    assert len(re.findall('same/1 200|"model":"same"', one.server.err)) == lines == 2


@pytest.mark.live_setting("log_level")
def test_log_level(serve: Serve) -> None:
    one = serve(log_level="warning")
    assert send(one).status == 200
    assert "a line of the handler" not in one.server.err
    one.reload(log_level="debug")
    assert send(one).status == 200
    one.server.await_stderr("a line of the handler")
    assert post(one.url, "/v2/models/same/infer", b"{").status == 400
    one.server.await_stderr(" debug ")
    one.reload(log_level="error")
    assert send(one).status == 200
    one.server.signal(signal.SIGTERM)
    assert one.server.exit_status() == 0
    assert one.server.err.count("a line of the handler") == 1
    assert "the server drains" not in one.server.err
