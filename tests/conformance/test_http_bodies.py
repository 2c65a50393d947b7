"""Transfer of bodies: type, length, encoding and chunks (cases B54 to B59, C22, C28 and C29)."""

from __future__ import annotations

import json
import socket

import pytest

from http_by_hand import HttpResponse, connect, read_response
from penstock import Server

from .content import add, summed, tensor
from .protocols import BINARY, GrpcProtocol, HttpProtocol, decode, on_json, served
from .transports import Reply, Rest, Transport, infer

ONE = b'{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1.5,2]}]}'
ECHOED = tensor("y", "FP32", [1.5, 2.0])
PATH = "/v2/models/ident_FP32/infer"
LIMIT = 64 << 20


def head(*lines: str, path: str = PATH) -> bytes:
    """The head of a POST, with these header lines."""
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def send_raw(server: Server, *chunks: bytes) -> Reply:
    """The reply to raw bytes."""
    with connect(server.http_url) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for chunk in chunks:
            sock.sendall(chunk)
        return to_reply(read_response(sock))


def to_reply(response: HttpResponse) -> Reply:
    return Reply(response.status, response.headers, response.body)


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


@pytest.mark.trap("T4")
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="none"),
        pytest.param({"Accept": "text/html"}, id="other-accept"),
        pytest.param({"Content-Type": "text/plain"}, id="text"),
    ],
)
def test_b54_content_type_is_ignored(http: Transport, headers: dict[str, str]) -> None:
    served(decode(http.request("POST", PATH, ONE, headers)), ECHOED)


@pytest.mark.trap("T4")
def test_b55_octet_stream_with_json_only(http: Transport) -> None:
    served(decode(http.request("POST", PATH, ONE, {"Content-Type": "application/octet-stream"})), ECHOED)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_b56_chunked_json(server: Server, size: int) -> None:
    chunks = [ONE[at : at + size] for at in range(0, len(ONE), size)]
    served(decode(send_raw(server, head("Transfer-Encoding: chunked"), chunked(*chunks))), ECHOED)


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_b56_chunked_binary(server: Server, rest: Rest, size: int) -> None:
    body, headers = HttpProtocol("", rest, binary=True).encode(add(rows=3))
    lines = [f"{name}: {value}" for name, value in headers.items()]
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    sent = head("Transfer-Encoding: chunked", *lines, path="/v2/models/add/infer")
    served(
        decode(send_raw(server, sent, *(chunked(chunk)[: -len(chunked())] for chunk in chunks), chunked())), summed(3)
    )


@pytest.mark.parametrize("at", [0, 1, 30, len(ONE) - 1])
def test_b56_body_in_two_writes(server: Server, at: int) -> None:
    served(decode(send_raw(server, head(f"Content-Length: {len(ONE)}"), ONE[:at], ONE[at:])), ECHOED)


def test_b57_expect_100_continue(server: Server) -> None:
    with connect(server.http_url) as sock:
        sock.sendall(head(f"Content-Length: {len(ONE)}", "Expect: 100-continue"))
        interim = b""
        while not interim.endswith(b"\r\n\r\n"):
            interim += (byte := sock.recv(1))
            assert byte, "the connection was closed before the interim answer"
        assert interim.startswith(b"HTTP/1.1 100 ")
        sock.sendall(ONE)
        served(decode(to_reply(read_response(sock))), ECHOED)


@pytest.mark.trap("T28")
@pytest.mark.parametrize("length", [LIMIT + 1, 2**31, 2**32 + 5, 2**63 - 1])
def test_b59_declared_length_over_the_limit(server: Server, length: int) -> None:
    # Refused by its length, without one byte of the body.
    for path in (PATH, "/v2/models/add/infer"):
        reply = send_raw(server, head(f"Content-Length: {length}", path=path))
        assert str(LIMIT) in reply.refusal(413)


def test_b59_body_over_the_limit(http: Transport) -> None:
    message = http.request("POST", PATH, b" " * (LIMIT + 1)).refusal(413)
    assert str(LIMIT) in message


def test_b59_chunked_body_over_the_limit(server: Server) -> None:
    chunk = b" " * (4 << 20)
    with connect(server.http_url) as sock:
        sock.sendall(head("Transfer-Encoding: chunked"))
        try:
            for _ in range(LIMIT // len(chunk) + 1):
                sock.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        except (BrokenPipeError, ConnectionResetError):
            pass  # The server may stop reading as soon as it knows.
        assert str(LIMIT) in to_reply(read_response(sock)).refusal(413)


def test_b59_message_over_the_limit(grpc_raw: GrpcProtocol) -> None:
    import grpc

    message = grpc_raw.message(add())
    message.id = "x" * LIMIT
    with pytest.raises(grpc.RpcError) as refusal:
        grpc_raw.stub.ModelInfer(message, timeout=20)
    assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(LIMIT) in refusal.value.details()


@pytest.mark.parametrize("encoding", ["lzma", "zstd-unknown", "compress", "br, gzip"])
def test_c22_unsupported_encoding(http: Transport, encoding: str) -> None:
    reply = http.request("POST", PATH, ONE, {"Content-Encoding": encoding})
    assert encoding in reply.refusal(415)
    assert reply.headers["accept-encoding"] == "gzip, deflate, br, zstd, identity"


@pytest.mark.parametrize("encoding", ["identity", ""])
def test_c22_identity_is_accepted(http: Transport, encoding: str) -> None:
    served(decode(http.request("POST", PATH, ONE, {"Content-Encoding": encoding})), ECHOED)


@pytest.mark.parametrize("accepted", ["gzip, deflate, br", "gzip", "*"])
def test_c28_metadata_and_errors_are_not_compressed(http: Transport, accepted: str) -> None:
    headers = {"Accept-Encoding": accepted}
    for path in ("/v2", "/v2/models", "/v2/models/add", "/v2/health/ready"):
        reply = http.request("GET", path, headers=headers)
        assert reply.status == 200
        assert "content-encoding" not in reply.headers
        assert json.loads(reply.body)
    http.request("GET", "/v2/models/none", headers=headers).refusal(404)
    http.request("POST", PATH, b"x" * 5000, headers).refusal(400)


@pytest.mark.parametrize(
    "name", ["inference-header-content-length", "INFERENCE-HEADER-CONTENT-LENGTH", "Inference-header-Content-length"]
)
@pytest.mark.parametrize("protocol", BINARY, indirect=True)
def test_c29_header_name_in_any_case(protocol: HttpProtocol, name: str) -> None:
    body, headers = protocol.encode(add())
    (length,) = headers.values()
    served(decode(protocol.transport.request("POST", "/v2/models/add/infer", body, {name: length})), summed())


@pytest.mark.trap("T5")
@on_json
def test_c7_json_length_of_an_all_json_body(protocol: HttpProtocol) -> None:
    body, _ = protocol.encode(add())
    headers = {"Inference-Header-Content-Length": str(len(body))}
    served(decode(protocol.transport.request("POST", "/v2/models/add/infer", body, headers)), summed())


def test_unknown_headers_are_ignored(http: Transport) -> None:
    served(decode(infer(http, "ident_FP32", ONE.decode(), headers={"X-Unknown": "1", "Foo": ""})), ECHOED)
