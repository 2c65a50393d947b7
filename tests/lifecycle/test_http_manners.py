"""General HTTP behavior: HEAD, reused and pipelined connections, declined upgrades."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import Connection, connect, get, read_response, read_responses
from models.v1 import rows, total
from penstock import Server

GETS = [
    "/",
    "/metrics",
    "/v1/models",
    "/v1/models/rows",
    "/v1/models/rows/versions/1",
    "/v2",
    "/v2/",
    "/v2/health/live",
    "/v2/health/ready",
    "/v2/models",
    "/v2/models/rows",
    "/v2/models/rows/ready",
    "/v2/models/rows/config",
    "/v2/models/rows/versions/1",
    "/v2/models/rows/versions/1/ready",
    "/v2/models/rows/versions/1/config",
]

PREDICT = json.dumps({"instances": [[1, 2]]}).encode()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Server(rows, total, http="127.0.0.1:0", grpc="same") as server:
        yield server.http_url


def post(path: str, body: bytes, *lines: str) -> bytes:
    head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *lines, "", ""])
    return head.encode() + body


@pytest.mark.parametrize("path", GETS)
def test_head_matches_get_without_a_body(url: str, path: str) -> None:
    with Connection(url) as connection:
        head = connection.send_request("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        # The connection still works: the next response is complete.
        response = connection.send_request("GET", path)
    assert response.status == 200
    assert head.headers["content-type"] == response.headers["content-type"]
    if path != "/metrics":
        assert head.headers["content-length"] == response.headers["content-length"] == str(len(response.body))


@pytest.mark.parametrize("path", GETS)
def test_browsers_neither_guess_types_nor_send_referrers(url: str, path: str) -> None:
    headers = get(url, path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_head_of_an_unknown_path(url: str) -> None:
    with Connection(url) as connection:
        for path, status in (("/nope", 404), ("/v1/models/nope", 404), ("/v1/models/rows:predict", 405)):
            response = connection.send_request("HEAD", path)
            assert (response.status, response.body) == (status, b"")


def test_pipelined_requests_of_all_kinds_are_answered_in_order(url: str) -> None:
    with connect(url) as sock:
        # The first waits for its handler; later responses do not overtake it.
        pipeline = [
            post("/v1/models/total:predict", json.dumps({"instances": [[number]] * 50}).encode()) for number in range(5)
        ]
        sock.sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".join(pipeline)
            + b"GET /v2/nope HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        responses = [json.loads(response.body) for response in read_responses(sock, 10)]
    assert responses[:9:2] == [{"predictions": [number] * 50} for number in range(5)]
    assert responses[1:9:2] == [{"status": "alive"}] * 4
    assert responses[9] == {"error": "Not Found: the nearest path is /v2/models/{model}"}


def test_connection_stays_open_unless_the_client_closes_it(url: str) -> None:
    with connect(url) as sock:
        for _ in range(3):
            sock.sendall(post("/v1/models/rows:predict", PREDICT))
            assert read_response(sock).status == 200
        sock.sendall(post("/v1/models/rows:predict", PREDICT, "Connection: close"))
        assert read_response(sock).headers["connection"] == "close"
        assert sock.recv(1) == b""


def test_http_1_0_client_is_answered_and_its_connection_closed(url: str) -> None:
    with connect(url) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert read_response(sock).json() == {"status": "alive"}
        assert sock.recv(1) == b""


def test_upgrade_to_http2_is_declined(url: str) -> None:
    """The response is HTTP/1.1, which RFC 9110, 7.8 allows."""
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    with connect(url) as sock:
        sock.sendall(post("/v1/models/rows:predict", PREDICT, *offer))
        response = read_response(sock)
        assert (response.status, response.json()) == (200, {"predictions": [[2, 4]]})
        assert "upgrade" not in response.headers
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_response(sock).status == 200


def test_one_port_serves_rest_and_grpc(url: str) -> None:
    with connect(url) as sock, grpc.insecure_channel(url.removeprefix("http://")) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for _ in range(3):
            sock.sendall(post("/v1/models/rows:predict", PREDICT))
            assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=20).live
            assert read_response(sock).status == 200
    assert get(url, "/v2/health/ready").status == 200
