"""HTTP as no client should write it: refused with a status, never answered by guess, and never the server's end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from http_by_hand import connect, get, is_closed, json_body, read_answer, read_answers
from penstock import Server, Tensor, model

PATH = "/v2/models/same/infer"


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: Any) -> Any:
    return x


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Server(same, http="127.0.0.1:0", grpc=None) as server:
        yield server.http_url


def body(*values: float) -> bytes:
    return json_body({"x": np.array(values, np.float32)})


def request(*lines: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {PATH} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


CONTRADICTIONS = {
    "length-and-chunked": request("Content-Length: 5", "Transfer-Encoding: chunked"),
    "chunked-and-length": request("Transfer-Encoding: chunked", "Content-Length: 5"),
    "two-lengths": request("Content-Length: 5", "Content-Length: 6"),
    "length-list": request("Content-Length: 5, 6"),
    "signed-length": request("Content-Length: +5"),
    "negative-length": request("Content-Length: -5"),
    "hexadecimal-length": request("Content-Length: 0x5"),
    "length-overflow": request("Content-Length: 99999999999999999999999"),
    "chunked-not-last": request("Transfer-Encoding: chunked, identity"),
    "unknown-coding": request("Transfer-Encoding: gzip"),
    "folded-header": request("X: a\r\n b", "Content-Length: 5"),
    "space-before-colon": request("Content-Length : 5"),
    "zero-byte": request("X: a\0b", "Content-Length: 5"),
    "bare-carriage-return": request("X: a\rContent-Length: 5"),
}


@pytest.mark.fault("contradicting lengths")
@pytest.mark.parametrize("head", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_contradicting_or_broken_head_is_refused_and_the_connection_closed(url: str, head: bytes) -> None:
    # What follows would be a request of its own to a server that reads the head in another way.
    smuggled = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connect(url) as sock:
        sock.sendall(head + b"0\r\n\r\n" + smuggled)
        answer = read_answer(sock)
        assert answer.status == 400
        assert is_closed(sock)
    assert get(url, "/v2/health/live").status == 200


@pytest.mark.parametrize(
    "bytes_",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), b"hello\r\n\r\n", b"GET\r\n\r\n", bytes(4096)],
    ids=["tls", "text", "half-a-request-line", "zeros"],
)
def test_what_is_not_http_ends_the_connection(url: str, bytes_: bytes) -> None:
    with connect(url) as sock:
        sock.sendall(bytes_)
        rest = sock.recv(1000)
        assert rest == b"" or rest.startswith(b"HTTP/1.1 400 ")
    assert get(url, "/v2/health/live").status == 200


@pytest.mark.parametrize("size", ["FFFFFFFFFFFFFFFFF", "-{0:x}", "0x{0:x}", "{0:x} {0:x}", "{0:x}g", "", "{0:x}"])
def test_a_broken_chunk_size_is_refused(url: str, size: str) -> None:
    # A body that would be answered well, so that only its size can be what is wrong.
    content = body(5)
    line = size.format(len(content)).encode()
    with connect(url) as sock:
        sock.sendall(request("Transfer-Encoding: chunked") + line + b"\r\n" + content + b"\r\n0\r\n\r\n")
        if size == "{0:x}":
            assert read_answer(sock).json()["outputs"][0]["data"] == [5]
            return
        rest = sock.recv(1000)
        assert rest == b"" or b" 4" in rest.split(b"\r\n")[0]
        assert b" 200 " not in rest
    assert get(url, "/v2/health/live").status == 200


def test_chunks_of_one_byte(url: str) -> None:
    with connect(url) as sock:
        sock.sendall(request("Transfer-Encoding: chunked"))
        for byte in body(*range(200)):
            sock.sendall(chunk(bytes([byte])))
        sock.sendall(chunk(b""))
        answer = read_answer(sock)
        assert answer.status == 200
        assert answer.json()["outputs"][0]["data"] == list(range(200))


def test_a_head_and_body_that_come_byte_by_byte(url: str) -> None:
    content = body(1, 2)
    with connect(url) as sock:
        for byte in request(f"Content-Length: {len(content)}") + content:
            sock.send(bytes([byte]))
        assert read_answer(sock).json()["outputs"][0]["data"] == [1, 2]


@pytest.mark.fault("pipelined requests")
def test_pipelined_requests_are_answered_in_order(url: str) -> None:
    pipeline = b""
    for value in range(20):
        content = body(value)
        pipeline += request(f"Content-Length: {len(content)}") + content
    with connect(url) as sock:
        sock.sendall(pipeline)
        answers = read_answers(sock, 20)
    assert [answer.json()["outputs"][0]["data"] for answer in answers] == [[value] for value in range(20)]


def test_a_refusal_does_not_spoil_the_requests_behind_it(url: str) -> None:
    good, bad = body(1), b'{"inputs":[]}'
    with connect(url) as sock:
        for content in (good, bad, good):
            sock.sendall(request(f"Content-Length: {len(content)}") + content)
        assert [answer.status for answer in read_answers(sock, 3)] == [200, 400, 200]


@pytest.mark.fault("Expect: 100-continue")
def test_a_client_that_waits_for_100_continue_gets_it(url: str) -> None:
    content = body(3)
    with connect(url) as sock:
        sock.sendall(request(f"Content-Length: {len(content)}", "Expect: 100-continue"))
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(content)
        assert read_answer(sock).json()["outputs"][0]["data"] == [3]


def test_a_refused_body_is_not_asked_for(url: str) -> None:
    with connect(url) as sock:
        sock.sendall(request(f"Content-Length: {1 << 40}", "Expect: 100-continue"))
        assert read_answer(sock).status == 413


@pytest.mark.fault("half close")
def test_a_client_that_sends_its_body_and_closes_its_half_is_answered(url: str) -> None:
    content = body(4)
    with connect(url) as sock:
        sock.sendall(request(f"Content-Length: {len(content)}") + content)
        sock.shutdown(socket.SHUT_WR)
        answer = sock.recv(10_000)
        # A closed half may mean that the client has left: no answer is right too, a wrong one is not.
        assert answer == b"" or answer.startswith(b"HTTP/1.1 200 ")
    assert get(url, "/v2/health/live").status == 200
