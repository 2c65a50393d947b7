"""Limits on clients, and the refusals beyond them."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

import http2_by_hand as http2
from http_by_hand import (
    Connection,
    HttpResponse,
    binary_body,
    connect,
    get,
    infer,
    is_closed,
    json_body,
    metric_at,
    post,
    read_response,
)
from penstock import Context, Server, Tensor, model
from serving_process import Serving
from waiting import Gate, at_once, until

PATH = "/v2/models/same/infer"


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: Any) -> Any:
    return x


@contextmanager
def serving(handler: Any = same, **options: Any) -> Iterator[str]:
    with Server(handler, http="127.0.0.1:0", grpc=None, **options) as server:
        yield server.http_url


def zeros(count: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.zeros(count, np.float32)}


def start(url: str, head: str, body: bytes = b"", *, path: str = PATH) -> socket.socket:
    """Sends a head and the start of a body."""
    sock = connect(url)
    sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode() + body)
    return sock


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_body_at_max_body_bytes_is_accepted_and_one_more_byte_is_not(chunked: bool) -> None:
    body = json_body(zeros(100))
    with serving(max_body_bytes=len(body)) as url:

        def send(body: bytes) -> HttpResponse:
            chunks = (body[at : at + 50] for at in range(0, len(body), 50)) if chunked else body
            with Connection(url) as connection:
                return connection.send_request("POST", PATH, chunks, encode_chunked=chunked)

        assert send(body).status == 200
        refused = send(body + b" ")
        assert (refused.status, refused.error()) == (
            413,
            f"the request's body has {len(body) + 1} bytes, at most {len(body)} are accepted",
        )
        assert send(body).status == 200


def test_declared_body_over_the_limit_is_refused_before_it_is_sent() -> None:
    with serving(max_body_bytes=1000) as url, start(url, "Content-Length: 1001\r\n") as sock:
        response = read_response(sock)
        assert response.status == 413
        assert response.headers["connection"] == "close"
        assert is_closed(sock)


def test_grpc_message_over_the_limit_is_refused() -> None:
    with (
        Server(same, http=None, grpc="127.0.0.1:0", max_body_bytes=1000) as server,
        grpc.insecure_channel(server.grpc_url) as channel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name="same", raw_input_contents=[bytes(4000)])
        request.inputs.add(name="x", datatype="FP32", shape=[1000])
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelInfer(request)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.value.details() == f"the message has {request.ByteSize()} bytes, at most 1000 are accepted"


def test_too_many_headers_are_refused() -> None:
    with serving(max_headers=10) as url:

        def send(count: int) -> HttpResponse:
            head = "".join(f"X-{index}: v\r\n" for index in range(count - 1))
            with connect(url) as sock:
                sock.sendall(f"GET /v2 HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
                return read_response(sock)

        assert send(10).status == 200
        refused = send(11)
        assert (refused.status, refused.error()) == (431, "the request has 11 headers, at most 10 are accepted")
        # More than the HTTP library stores at all.
        assert send(500).status == 431


def test_too_many_header_bytes_are_refused() -> None:
    with serving(max_header_bytes=1000) as url:

        def send(size: int) -> HttpResponse:
            with connect(url) as sock:
                sock.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nX: " + b"v" * (size - 14) + b"\r\n\r\n")
                return read_response(sock)

        assert send(1000).status == 200
        refused = send(1001)
        assert (refused.status, refused.error()) == (
            431,
            "the request's headers have 1001 bytes, at most 1000 are accepted",
        )
        assert send(1 << 20).status == 431


def test_too_long_paths_are_refused() -> None:
    with serving() as url:
        assert get(url, "/v2?" + "q" * (8192 - 4)).status == 200
        refused = get(url, "/v2?" + "q" * (8193 - 4))
        assert (refused.status, refused.error()) == (
            414,
            "the request's path has 8193 bytes, at most 8192 are accepted",
        )
        assert get(url, "/" + "q" * 100_000).status == 414


def test_deeply_nested_json_is_refused() -> None:
    def body(depth: int) -> bytes:
        # The body's object is one more level. Unknown members are skipped, but with a depth limit.
        return json_body(zeros(1), unknown=json.loads("[" * (depth - 1) + "]" * (depth - 1)))

    with serving(max_json_depth=8) as url:
        assert post(url, PATH, body(8)).status == 200
        refused = post(url, PATH, body(9))
        assert refused.status == 400
        assert "8" in refused.error()
        assert "nest" in refused.error()
        assert "nest" in post(url, PATH, b'{"unknown":' + b"[" * 500_000).error()


def test_bytes_in_flight_are_bounded_and_released() -> None:
    gate = Gate()

    @model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
    def held(x: Any) -> Any:
        gate.enter()
        return x

    with serving(held, max_inflight_bytes=10_000) as url:
        (first,) = at_once([lambda: infer(url, "held", zeros(1500))])
        gate.await_entered()
        assert 6000 < metric_at(url, "penstock_body_bytes") < 6500
        refused = infer(url, "held", zeros(1500))
        assert (refused.status, refused.error()) == (429, "the server is at max_inflight_bytes, retry later")
        assert int(refused.headers["retry-after"]) >= 1
        gate.open()
        assert first.result().status == 200
        # A client that disconnects releases its bytes too.
        for _ in range(20):
            with start(url, "Content-Length: 9000\r\n", b"x" * 8000, path="/v2/models/held/infer"):
                until(lambda: metric_at(url, "penstock_body_bytes") > 0)
            until(lambda: metric_at(url, "penstock_body_bytes") == 0)
        assert infer(url, "held", zeros(1500)).status == 200
        assert infer(url, "held", zeros(3000)).status == 429


def test_connection_over_max_connections_is_closed() -> None:
    with ExitStack() as stack:
        url = stack.enter_context(serving(max_connections=2))
        first, second = stack.enter_context(Connection(url)), stack.enter_context(Connection(url))
        assert [one.send_request("GET", "/v2/health/live").status for one in (first, second)] == [200, 200]
        assert is_closed(stack.enter_context(connect(url)))
        first.close()

        def is_served() -> bool:
            try:
                return get(url, "/v2/health/live").status == 200
            except OSError:
                return False

        until(is_served)
        assert second.send_request("GET", "/v2/health/live").status == 200


def test_idle_timeout_closes_idle_connections_only() -> None:
    gate = Gate()

    @model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
    def slow(x: Any) -> Any:
        gate.enter()
        return x

    with serving(slow, idle_timeout=0.3, body_timeout=0.3, header_timeout=0.3) as url:
        (response,) = at_once([lambda: infer(url, "slow", zeros(1))])
        gate.await_entered()
        with connect(url) as silent, Connection(url) as used:
            assert used.send_request("GET", "/v2/health/live").status == 200
            assert is_closed(silent)
            assert is_closed(used.sock)
        # The computing connection is now older than all timeouts.
        gate.open()
        assert response.result().status == 200


@pytest.mark.fault("slow head")
def test_unfinished_request_head_times_out_even_if_bytes_arrive() -> None:
    with serving(header_timeout=0.5) as url, connect(url) as sock:
        stop = threading.Event()

        def drip() -> None:
            sock.sendall(b"GET /v2 HTTP/1.1\r\n")
            while not stop.wait(0.1):
                try:
                    sock.sendall(b"X: slow\r\n")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert is_closed(sock)
        finally:
            stop.set()
            dripping.join()


@pytest.mark.fault("slow body")
@pytest.mark.parametrize("head", ["Content-Length: 500\r\n", "Transfer-Encoding: chunked\r\n"])
def test_stalled_body_times_out(head: str) -> None:
    body = b'5\r\n{"inp' if "chunked" in head else b'{"inp'
    with serving(body_timeout=0.5) as url, start(url, head, body) as sock:
        response = read_response(sock)
        assert (response.status, response.error()) == (408, "no more of the body came for 500ms")
        assert response.headers["connection"] == "close"
        assert is_closed(sock)


def test_slow_reader_receives_the_whole_response() -> None:
    short = {"idle_timeout": 0.3, "body_timeout": 0.3, "header_timeout": 0.3, "write_timeout": 0.3}
    with serving(**short, max_body_bytes=1 << 28) as url:
        size = 4 << 20
        body, headers = binary_body(zeros(size))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with start(url, f"Content-Length: {len(body)}\r\n{lines}", body) as sock:
            pause, received = threading.Event(), 0
            # Longer than every timeout, but never idle for as long as one.
            while received < size * 4:
                data = sock.recv(size // 5)
                assert data, f"the server closed after {received} bytes"
                received += len(data)
                pause.wait(0.1)


@pytest.mark.fault("zero window")
def test_connection_of_a_client_that_never_reads_is_closed() -> None:
    with serving(write_timeout=0.3, max_body_bytes=1 << 28) as url:
        body, headers = binary_body(zeros(4 << 20))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with start(url, f"Content-Length: {len(body)}\r\n{lines}", body):
            until(lambda: metric_at(url, "penstock_requests_total", outcome="ok") == 1, "the response")
            until(lambda: metric_at(url, "penstock_connections") == 1, "the connection to be closed")


def memory_kb(process: int) -> int:
    """Private memory of a process, because shared file pages vary."""
    (line,) = [line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("RssAnon")]
    return int(line.split()[1])


@pytest.mark.parametrize(
    ("version", "count", "size", "library_bytes"), [("http1", 8, 1 << 16, 8 << 20), ("http2", 1, 1 << 20, 32 << 20)]
)
def test_body_in_tiny_chunks_uses_little_more_memory_than_counted(
    version: str, count: int, size: int, library_bytes: int
) -> None:
    with Serving("same.py", "--http", "127.0.0.1:0", "--grpc", "off") as server, ExitStack() as stack:
        assert infer(server.http, "same", zeros(4)).status == 200
        before = memory_kb(server.process.pid)
        for _ in range(count):
            sock = stack.enter_context(connect(server.http))
            if version == "http1":
                sock.sendall(_head("Transfer-Encoding: chunked\r\n") + b"1\r\n \r\n" * size)
            else:
                sock.sendall(http2.opening() + http2.post_headers(1, PATH) + http2.frame(http2.DATA, 1, b" ") * size)
        until(lambda: metric_at(server.http, "penstock_body_bytes") == count * size, "all of it to be read")
        # In addition to four times the bodies: bytes that the HTTP library buffers.
        assert (memory_kb(server.process.pid) - before) << 10 < 4 * count * size + library_bytes


@pytest.mark.parametrize("size", [1 << 30, 1 << 40])
@pytest.mark.parametrize("shape", ["json", "binary", "grpc"])
def test_declared_bytes_that_never_arrive_use_no_memory(size: int, shape: str) -> None:
    limits = ("--max-body-bytes", str(size * 2), "--max-inflight-bytes", str(size * 100))
    with Serving("same.py", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", *limits) as server:
        before = memory_kb(server.process.pid)
        sockets = []
        declared = {"name": "x", "shape": [size // 4], "datatype": "FP32", "parameters": {"binary_data_size": size}}
        head = json.dumps({"inputs": [declared]}).encode()
        for _ in range(8):
            sock = connect(f"http://{server.grpc}" if shape == "grpc" else server.http)
            if shape == "grpc":
                sock.sendall(
                    http2.opening()
                    + http2.infer_headers(1)
                    + http2.frame(http2.DATA, 1, b"\0" + min(size, 2**32 - 1).to_bytes(4, "big") + b"x" * 10)
                )
            elif shape == "binary":
                lengths = f"Content-Length: {len(head) + size}\r\nInference-Header-Content-Length: {len(head)}\r\n"
                sock.sendall(_head(lengths) + head + b"x" * 10)
            else:
                sock.sendall(_head(f"Content-Length: {size}\r\n") + b'{"inputs":')
            sockets.append(sock)
        until(lambda: metric_at(server.http, "penstock_connections") >= 8)
        for _ in range(3):
            # By now the server has read all sent bytes, and it still answers.
            assert infer(server.http, "same", zeros(4)).status == 200
        assert memory_kb(server.process.pid) - before < 40_000
        for sock in sockets:
            sock.close()


def _head(lines: str) -> bytes:
    return f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()


@pytest.mark.fault("leaves in the queue")
def test_abandoned_queued_requests_are_not_computed() -> None:
    gate, computed = Gate(), []

    @model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
    def counted(x: Any, ctx: Context) -> Any:
        computed.append(ctx.request_id)
        gate.enter()
        return x

    with serving(counted) as url:
        (first,) = at_once([lambda: infer(url, "counted", zeros(1), id="first")])
        gate.await_entered()
        body, headers = binary_body(zeros(1), id="leaver")
        leaver = connect(url)
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        lines = f"Host: localhost\r\nContent-Length: {len(body)}\r\n{head}"
        leaver.sendall(f"POST /v2/models/counted/infer HTTP/1.1\r\n{lines}\r\n".encode() + body)
        until(lambda: metric_at(url, "penstock_queue_depth") == 1)
        leaver.close()
        until(lambda: metric_at(url, "penstock_in_flight") == 1, "the leaver to be counted out")
        gate.open()
        assert first.result().status == 200
        assert infer(url, "counted", zeros(1), id="last").status == 200
        assert computed == ["first", "last"]
        assert metric_at(url, "penstock_abandoned_total", model="counted") == 1
        assert metric_at(url, "penstock_queue_depth") == 0


def test_cancelled_queued_grpc_requests_are_not_computed() -> None:
    gate, calls = Gate(), []

    @model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
    def counted(x: Any) -> Any:
        calls.append(1)
        gate.enter()
        return x

    with Server(counted, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        (first,) = at_once([lambda: infer(server.http_url, "counted", zeros(1))])
        gate.await_entered()
        with grpc.insecure_channel(server.grpc_url) as channel:
            request = service_pb2.ModelInferRequest(model_name="counted", raw_input_contents=[bytes(4)])
            request.inputs.add(name="x", datatype="FP32", shape=[1])
            call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(request)
            until(lambda: metric_at(server.http_url, "penstock_queue_depth") == 1)
            call.cancel()
            until(lambda: metric_at(server.http_url, "penstock_in_flight") == 1)
        gate.open()
        assert first.result().status == 200
        until(lambda: metric_at(server.http_url, "penstock_abandoned_total") == 1)
        assert calls == [1]


@pytest.mark.fault("leaves in the body")
def test_disconnects_within_a_body_leak_nothing() -> None:
    with serving() as url:
        body, headers = binary_body(zeros(100_000))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        descriptors = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            start(url, f"Content-Length: {len(body)}\r\n{lines}", body[: len(body) // 2]).close()
        until(lambda: metric_at(url, "penstock_connections") == 1)
        assert metric_at(url, "penstock_in_flight") == 0
        assert infer(url, "same", zeros(100_000)).status == 200
        until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)
