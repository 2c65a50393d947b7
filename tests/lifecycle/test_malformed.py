"""Malformed HTTP: refused with a status, never guessed at, and never fatal for the server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import http2_by_hand as http2
from http_by_hand import connect, get, is_closed, json_body, metric_at, read_response, read_responses
from penstock import Server, Tensor, model

PATH = "/v2/models/same/infer"


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: Any) -> Any:
    return x


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Server(same, http="127.0.0.1:0", grpc=None, allowed_hosts=["*"]) as server:
        yield server.http_url


def body(*values: float) -> bytes:
    return json_body({"x": np.array(values, np.float32)})


def request(*lines: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {PATH} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


# A server that overlooks the error in one of these heads sees a valid request, and answers 200.
GOOD = body(1)
LENGTH = len(GOOD)
CONTRADICTIONS = {
    "length-and-chunked": request(f"Content-Length: {LENGTH}", "Transfer-Encoding: chunked"),
    "chunked-and-length": request("Transfer-Encoding: chunked", f"Content-Length: {LENGTH}"),
    "chunked-and-other-length": request("transfer-encoding:chunked", "X: y", "CONTENT-LENGTH:0"),
    "chunked-list": request("Transfer-Encoding: chunked, chunked"),
    "chunked-twice": request("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    "chunked-not-last": request("Transfer-Encoding: chunked, identity"),
    "other-coding-and-chunked": request("Transfer-Encoding: gzip, chunked"),
    "unknown-coding": request("Transfer-Encoding: gzip"),
    "two-lengths": request(f"Content-Length: {LENGTH}", f"Content-Length: {LENGTH + 1}"),
    "length-list": request(f"Content-Length: {LENGTH}, {LENGTH + 1}"),
    "signed-length": request(f"Content-Length: +{LENGTH}"),
    "negative-length": request(f"Content-Length: -{LENGTH}"),
    "hexadecimal-length": request(f"Content-Length: {LENGTH:#x}"),
    "length-overflow": request(f"Content-Length: {(1 << 64) + LENGTH}"),
    "folded-header": request("X: a\r\n b", f"Content-Length: {LENGTH}"),
    "space-before-colon": request(f"Content-Length : {LENGTH}"),
    "zero-byte": request("X: a\0b", f"Content-Length: {LENGTH}"),
    "bare-carriage-return": request(f"X: a\rContent-Length: {LENGTH}"),
}


# A server that reads the head differently would take the rest for another request.
SMUGGLED = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def with_body(head: bytes) -> bytes:
    return head + (chunk(GOOD) + chunk(b"") if b"transfer-encoding" in head.lower() else GOOD)


@pytest.mark.parametrize("line", [f"Content-Length: {LENGTH}", "Transfer-Encoding: Chunked"])
def test_consistent_heads_are_served(url: str, line: str) -> None:
    with connect(url) as sock:
        sock.sendall(with_body(request(line)) + SMUGGLED)
        assert [response.status for response in read_responses(sock, 2)] == [200, 200]


@pytest.mark.fault("contradicting lengths")
@pytest.mark.parametrize("head", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradictory_or_malformed_heads_are_refused_and_the_connection_closed(url: str, head: bytes) -> None:
    with connect(url) as sock:
        sock.sendall(with_body(head) + SMUGGLED)
        response = read_response(sock)
        assert response.status == 400
        assert is_closed(sock)
    assert get(url, "/v2/health/live").status == 200


def test_refusal_names_the_framing_error(url: str) -> None:
    for name, message in [
        (
            "chunked-and-length",
            "the request has the headers Transfer-Encoding and Content-Length, expected one of them",
        ),
        ("chunked-list", 'the transfer encoding is "chunked, chunked", expected "chunked"'),
        ("other-coding-and-chunked", 'the transfer encoding is "gzip, chunked", expected "chunked"'),
    ]:
        with connect(url) as sock:
            sock.sendall(with_body(CONTRADICTIONS[name]))
            response = read_response(sock)
            assert (response.error(), response.headers["connection"]) == (message, "close")


def test_contradictory_head_after_valid_pipelined_requests_is_refused(url: str) -> None:
    good = [with_body(request(line)) for line in (f"Content-Length: {LENGTH}", "Transfer-Encoding: chunked")]
    bad = with_body(CONTRADICTIONS["length-and-chunked"])
    with connect(url) as sock:
        # First all bytes at once; then a connection that sends them byte by byte.
        sock.sendall(b"".join(good) * 2 + bad + SMUGGLED)
        assert [response.status for response in read_responses(sock, 5)] == [200, 200, 200, 200, 400]
        assert is_closed(sock)
    with connect(url) as sock:
        for byte in b"".join(good) + bad:
            sock.send(bytes([byte]))
        assert [response.status for response in read_responses(sock, 3)] == [200, 200, 400]


HOSTS = {
    "": "the request has no Host header, expected one",
    "Host: a\r\nHost: a\r\n": "the request has 2 Host headers, expected one",
    "Host: a/b\r\n": 'the header Host is "a/b", expected a name and, after a colon, a port',
    "Host: a b/c@d\r\n": 'the header Host is "a b/c@d", expected a name and, after a colon, a port',
    "Host: a:b\r\n": 'the header Host is "a:b", expected a name and, after a colon, a port',
}


@pytest.mark.parametrize(("lines", "message"), HOSTS.items())
@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/models/same/infer", "/nowhere"])
def test_host_header_is_required_once(url: str, path: str, lines: str, message: str) -> None:
    with connect(url) as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\n{lines}Content-Length: {LENGTH}\r\n\r\n".encode() + GOOD)
        response = read_response(sock)
    assert (response.status, response.error()) == (400, message)


@pytest.mark.parametrize("host", ["", "localhost", "a_b.example:80", "[::1]:8000", "127.0.0.1:"])
def test_valid_host_forms_are_served(url: str, host: str) -> None:
    with connect(url) as sock:
        sock.sendall(f"GET /v2/health/live HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert read_response(sock).status == 200
        sock.sendall(f"GET http://{host or 'x'}/v2/health/live HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert read_response(sock).status == 200


def test_http2_authority_with_userinfo_is_refused(url: str) -> None:
    for authority, served in [("localhost:80", True), ("user@localhost", False)]:
        fields = {":method": "GET", ":scheme": "http", ":path": "/v2/health/live", ":authority": authority}
        flags = http2.END_HEADERS | http2.END_STREAM
        with connect(url) as sock:
            sock.sendall(http2.opening() + http2.frame(http2.HEADERS, 1, http2.block(fields), flags))
            response = http2.text(http2.until_end(http2.frames(sock), 1))
        assert (b'"live"' in response) == served, response
        assert served or b"authority is" in response


@pytest.mark.parametrize(
    "bytes_",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), b"hello\r\n\r\n", b"GET\r\n\r\n", bytes(4096)],
    ids=["tls", "text", "half-a-request-line", "zeros"],
)
def test_non_http_bytes_close_the_connection(url: str, bytes_: bytes) -> None:
    with connect(url) as sock:
        sock.sendall(bytes_)
        rest = sock.recv(1000)
        assert rest == b"" or rest.startswith(b"HTTP/1.1 400 ")
    assert get(url, "/v2/health/live").status == 200


@pytest.mark.parametrize("size", ["FFFFFFFFFFFFFFFFF", "-5", "0x5", "5 5", "", "4"])
def test_invalid_chunk_size_is_refused(url: str, size: str) -> None:
    before = metric_at(url, "penstock_requests_total", outcome="invalid_input")
    with connect(url) as sock:
        sock.sendall(request("Transfer-Encoding: chunked") + f"{size}\r\n12345\r\n0\r\n\r\n".encode())
        response = read_response(sock)
        assert (response.status, "the request's chunked body is broken: " in response.error()) == (400, True)
        assert is_closed(sock)
    assert metric_at(url, "penstock_requests_total", outcome="invalid_input") == before + 1


def test_disconnect_within_a_chunk_is_not_a_protocol_error(url: str) -> None:
    with connect(url) as sock:
        sock.sendall(request("Transfer-Encoding: chunked") + b"5\r\n123")
        sock.shutdown(socket.SHUT_WR)
        assert read_response(sock).status == 499


def test_one_byte_chunks_are_accepted(url: str) -> None:
    with connect(url) as sock:
        sock.sendall(request("Transfer-Encoding: chunked"))
        for byte in body(*range(200)):
            sock.sendall(chunk(bytes([byte])))
        sock.sendall(chunk(b""))
        response = read_response(sock)
        assert response.status == 200
        assert response.json()["outputs"][0]["data"] == list(range(200))


def test_request_sent_byte_by_byte_is_served(url: str) -> None:
    content = body(1, 2)
    with connect(url) as sock:
        for byte in request(f"Content-Length: {len(content)}") + content:
            sock.send(bytes([byte]))
        assert read_response(sock).json()["outputs"][0]["data"] == [1, 2]


@pytest.mark.fault("pipelined requests")
def test_pipelined_requests_are_answered_in_order(url: str) -> None:
    pipeline = b""
    for value in range(20):
        content = body(value)
        pipeline += request(f"Content-Length: {len(content)}") + content
    with connect(url) as sock:
        sock.sendall(pipeline)
        responses = read_responses(sock, 20)
    assert [response.json()["outputs"][0]["data"] for response in responses] == [[value] for value in range(20)]


def test_refusal_does_not_affect_later_pipelined_requests(url: str) -> None:
    good, bad = body(1), b'{"inputs":[]}'
    with connect(url) as sock:
        for content in (good, bad, good):
            sock.sendall(request(f"Content-Length: {len(content)}") + content)
        assert [response.status for response in read_responses(sock, 3)] == [200, 400, 200]


@pytest.mark.fault("Expect: 100-continue")
def test_expect_100_continue_is_honored(url: str) -> None:
    content = body(3)
    with connect(url) as sock:
        sock.sendall(request(f"Content-Length: {len(content)}", "Expect: 100-continue"))
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(content)
        assert read_response(sock).json()["outputs"][0]["data"] == [3]


def test_no_100_continue_for_a_refused_body(url: str) -> None:
    with connect(url) as sock:
        sock.sendall(request(f"Content-Length: {1 << 40}", "Expect: 100-continue"))
        assert read_response(sock).status == 413


@pytest.mark.fault("half close")
def test_half_closed_connection_gets_its_response(url: str) -> None:
    content = body(4)
    with connect(url) as sock:
        sock.sendall(request(f"Content-Length: {len(content)}") + content)
        sock.shutdown(socket.SHUT_WR)
        response = sock.recv(10_000)
        # A half-close may mean that the client left: no response is right too, a wrong one is not.
        assert response == b"" or response.startswith(b"HTTP/1.1 200 ")
    assert get(url, "/v2/health/live").status == 200
