"""Slow clients: each loses only its own stream or connection."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

import http2_by_hand as http2
from http_by_hand import connect, get, infer, is_closed, json_body, metric_at, read_response
from penstock import Server, Tensor, model
from waiting import PATIENCE, until

PATH = "/v2/models/same/infer"
BODY = json_body({"x": np.zeros(4, np.float32)})
STREAM_INFER = {**http2.INFER, ":path": "/inference.GRPCInferenceService/ModelStreamInfer"}


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: Any) -> Any:
    return x


@contextmanager
def serving(*models: Any, **options: Any) -> Iterator[str]:
    with Server(*models or (same,), http="127.0.0.1:0", grpc="same", **options) as server:
        yield server.http_url


@contextmanager
def repeating(sock: socket.socket, data: bytes, every: float) -> Iterator[None]:
    """Sends these bytes repeatedly until the server closes the connection."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(every):
            try:
                sock.sendall(data)
            except OSError:
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


TRICKLE = re.compile(r"the body came at \d+ B/s; 240 are needed")


@pytest.mark.fault("slow body")
@pytest.mark.parametrize("head", ["Content-Length: 500", "Transfer-Encoding: chunked"])
def test_trickling_body_is_cut(head: str) -> None:
    with serving() as url, connect(url) as sock:
        sock.sendall(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
        with repeating(sock, b"1\r\n \r\n" if "chunked" in head else b" ", 0.5):
            response = read_response(sock)
        assert response.status == 408
        assert TRICKLE.fullmatch(response.error())
        until(lambda: metric_at(url, "penstock_in_flight") == 0)
        assert metric_at(url, "penstock_requests_total", outcome="timeout") == 1


def test_min_rate_0_allows_a_trickling_body() -> None:
    with serving(min_body_rate=0) as url, connect(url) as other, connect(url) as sock:
        lines = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY) + 1000}\r\n\r\n".encode()
        sock.sendall(lines + BODY)
        with serving(body_timeout=6) as clock, connect(clock) as stalled, repeating(sock, b" ", 0.5):
            # The end of this connection shows that the grace period has passed.
            stalled.sendall(lines)
            assert read_response(stalled).status == 408
        sock.sendall(b" " * 1000)
        assert read_response(sock).status == 200
        other.close()


@pytest.mark.fault("slow body")
def test_stalled_http2_stream_is_reset_alone() -> None:
    with serving(body_timeout=0.5) as url, connect(url) as sock:
        sock.sendall(http2.opening() + http2.post_headers(1, PATH) + http2.post_headers(3, PATH))
        frames = http2.frames(sock)
        # Bytes of another stream, and pings, do not count.
        with repeating(sock, http2.frame(http2.DATA, 3, b" ") + http2.frame(http2.PING, 0, bytes(8)), 0.05):
            stalled = list(http2.until_end(frames, 1))
        assert http2.text(stalled) == b'{"error":"no more of the body came for 500ms"}'
        sock.sendall(http2.frame(http2.DATA, 3, BODY, http2.END_STREAM))
        rest = list(http2.until_end(frames, 3))
        assert b'"outputs"' in http2.text(rest, 3)
        assert [one.payload for one in rest if one.kind == http2.RST_STREAM] == [bytes(4)]


def test_unfinished_grpc_message_is_cut() -> None:
    stop = threading.Event()

    def request() -> Iterator[bytes]:
        yield service_pb2.ModelInferRequest(model_name="same").SerializeToString()
        stop.wait(PATIENCE)

    with serving(body_timeout=0.5) as url, grpc.insecure_channel(url.removeprefix("http://")) as channel:
        for name in ("ModelInfer", "ServerLive"):
            # As a stream, so that its end is separate from its only message.
            call = channel.stream_unary(f"/inference.GRPCInferenceService/{name}")
            with pytest.raises(grpc.RpcError) as raised:
                call(request(), timeout=PATIENCE)
            assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert raised.value.details() == "no more of the body came for 500ms"
        stop.set()
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=PATIENCE).live


def test_grpc_stream_may_be_idle_only_between_messages() -> None:
    message = service_pb2.ModelInferRequest(model_name="nobody").SerializeToString()
    message = b"\0" + len(message).to_bytes(4, "big") + message
    with serving(body_timeout=0.5) as url, connect(url) as sock, connect(url) as clock:
        head = http2.frame(http2.HEADERS, 1, http2.block(STREAM_INFER), http2.END_HEADERS)
        sock.sendall(http2.opening() + head + http2.frame(http2.DATA, 1, message))
        # The end of this call shows that the body timeout has passed.
        clock.sendall(http2.opening() + http2.post_headers(1, PATH))
        assert b"no more" in http2.text(http2.until_end(http2.frames(clock), 1))
        sock.sendall(http2.frame(http2.DATA, 1, message + message[:7]))
        frames = list(http2.until_end(http2.frames(sock), 1))
        assert http2.text(frames).count(b"unknown model 'nobody'") == 2
        # The end of a gRPC response with its status, not just of the connection.
        assert any(one.kind == http2.HEADERS and one.flags & http2.END_STREAM for one in frames)


@pytest.mark.fault("slow head")
@pytest.mark.parametrize(
    ("opening", "data"),
    [
        (http2.PREFACE[:10], b""),
        (http2.PREFACE, b""),
        (http2.PREFACE + http2.frame(http2.SETTINGS, 0, http2.NO_WINDOW)[:11], b""),
        (
            http2.opening() + http2.infer_headers(1, flags=0),
            http2.frame(http2.CONTINUATION, 1, http2.block({"x": "y"})),
        ),
        (http2.opening() + http2.infer_headers(1)[:20], b""),
    ],
    ids=["preface", "no settings", "settings", "continuations", "headers"],
)
def test_unfinished_http2_head_is_cut(opening: bytes, data: bytes) -> None:
    with serving(header_timeout=0.5) as url, connect(url) as sock:
        sock.sendall(opening)
        with repeating(sock, data, 0.1):
            assert not [one for one in http2.frames(sock) if one.stream]


def test_pings_do_not_keep_an_idle_connection_open() -> None:
    with serving(idle_timeout=0.5) as url, connect(url) as sock:
        sock.sendall(http2.opening())
        with repeating(sock, http2.frame(http2.PING, 0, bytes(8)), 0.1):
            assert not [one for one in http2.frames(sock) if one.stream]
        assert get(url, "/v2/health/live").status == 200


def large_model(calls: list[int]) -> Any:
    @model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
    def large(x: Any) -> Any:
        calls.append(1)
        return np.zeros(len(x) << 20, np.float32)

    return large


def send_request(sock: socket.socket, stream: int) -> None:
    body, headers = json_body({"x": np.zeros(1, np.float32)}, parameters={"binary_data_output": True}), {}
    path = "/v2/models/large/infer"
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost", **headers}
    sock.sendall(http2.frame(http2.HEADERS, stream, http2.block(fields), http2.END_HEADERS))
    sock.sendall(http2.frame(http2.DATA, stream, body, http2.END_STREAM))


@pytest.mark.fault("zero window")
@pytest.mark.parametrize("window", [0, 1])
def test_unread_responses_close_their_http2_connection(window: int) -> None:
    calls: list[int] = []
    with serving(large_model(calls), write_timeout=0.5) as url, connect(url) as sock:
        sock.sendall(http2.opening(b"\0\x04" + window.to_bytes(4, "big")))
        for index in range(20):
            send_request(sock, 2 * index + 1)
        with repeating(sock, http2.frame(http2.PING, 0, bytes(8)), 0.1):
            for _ in http2.frames(sock):
                pass
        until(lambda: metric_at(url, "penstock_connections") == 1)


def test_reading_client_keeps_its_connection() -> None:
    with serving(large_model([]), write_timeout=0.5) as url, connect(url) as sock, connect(url) as clock:
        sock.sendall(http2.opening(http2.NO_WINDOW))
        send_request(sock, 1)
        clock.sendall(http2.opening(http2.NO_WINDOW))
        send_request(clock, 1)
        frames = http2.frames(sock)
        with repeating(sock, http2.frame(http2.WINDOW_UPDATE, 1, b"\0\0\0\x01"), 0.05):
            # This idle connection is closed in the same time.
            assert not http2.text(http2.frames(clock))
        sock.sendall(http2.frame(http2.WINDOW_UPDATE, 1, (1 << 23).to_bytes(4, "big")))
        sock.sendall(http2.frame(http2.WINDOW_UPDATE, 0, (1 << 23).to_bytes(4, "big")))
        assert len(http2.text(http2.until_end(frames, 1))) > 4 << 20


def test_unread_responses_count_toward_held_bytes() -> None:
    calls: list[int] = []
    with serving(large_model(calls), io_threads=1, max_inflight_bytes=20 << 20) as url, connect(url) as sock:
        sock.sendall(http2.opening(http2.NO_WINDOW))
        # All are started before the first response is ready.
        for index in range(20):
            send_request(sock, 2 * index + 1)
        until(lambda: metric_at(url, "penstock_requests_total") == 20)
        # Four of 4 MiB fit. The others are computed too, but a refusal without memory replaces them.
        assert len(calls) == 20
        assert metric_at(url, "penstock_requests_total", outcome="overloaded") == 16
        assert 16 << 20 <= metric_at(url, "penstock_answer_bytes") < 20 << 20
        # Requests are counted separately: others are served.
        assert infer(url, "large", {"x": np.zeros(0, np.float32)}).status == 200
        sock.close()
        assert until(lambda: metric_at(url, "penstock_answer_bytes") == 0)


@pytest.mark.fault("zero window")
def test_http1_connection_that_never_reads_is_closed() -> None:
    with serving(large_model([]), write_timeout=0.5) as url, connect(url) as sock:
        body = json_body({"x": np.zeros(8, np.float32)}, parameters={"binary_data_output": True})
        head = (
            f"POST /v2/models/large/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )
        sock.sendall(head + body)
        until(lambda: metric_at(url, "penstock_requests_total", outcome="ok") == 1)
        until(lambda: metric_at(url, "penstock_connections") == 1)


def test_idle_http1_connection_is_closed() -> None:
    with serving(idle_timeout=0.5) as url, connect(url) as sock:
        sock.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_response(sock).status == 200
        # Empty lines do not start a request.
        with repeating(sock, b"\r\n", 0.1):
            assert is_closed(sock)
