"""Raw requests of the client: `request` over HTTP, `call` over gRPC."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from misbehaving import Misbehaving, refusal
from penstock import AsyncClient, Client, InvalidInput, NotFound, Timeout, Unavailable, Unsupported
from penstock.client import HttpAnswer

DOUBLE = {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}
READY = "inference.GRPCInferenceService/ModelReady"


def http_response(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


def call_both(url: str, method: str, *arguments: Any, **options: Any) -> Any:
    """The result of the blocking client, after a check that the async client's has the same type."""

    async def asynchronous() -> Any:
        async with AsyncClient(url) as client:
            return await getattr(client, method)(*arguments, **options)

    with Client(url) as client:
        response = getattr(client, method)(*arguments, **options)
    async_response = asyncio.run(asynchronous())
    assert isinstance(async_response, type(response))
    return response


@pytest.mark.parametrize("scheme", ["http", "unix"])
def test_request_reaches_any_path(scheme: str, urls: dict[str, str]) -> None:
    response = call_both(urls[scheme], "request", "GET", "/v2/models/double")
    assert (response.status, response.ok, response.json()["name"]) == (200, True, "double")
    assert response.headers["content-type"] == "application/json"
    posted = call_both(urls[scheme], "request", "POST", "/v2/models/double/infer", json.dumps(DOUBLE))
    assert posted.json()["outputs"][0]["data"] == [2, 4, 6]


def test_error_status_is_a_response(urls: dict[str, str]) -> None:
    response = call_both(urls["http"], "request", "GET", "/v2/models/unknown")
    assert (response.status, response.ok) == (404, False)
    assert "unknown" in response.json()["error"]


def test_head_response_keeps_the_connection_usable(urls: dict[str, str]) -> None:
    with Client(urls["http"]) as client:
        assert client.request("HEAD", "/v2").body == b""
        assert client.request("GET", "/v2").json()["name"]


def test_headers_and_body_are_sent_unchanged() -> None:
    with Misbehaving(lambda _: http_response(b"{}", b"X-A: 1", b"x-a: 2", b"X-B:  b ")) as server:
        with Client(server.url) as client:
            headers = {"Content-Type": "text/plain", "inference-header-content-length": "3", "X-Custom": "é"}
            response = client.request("PUT", "/a/b?c=%20d", b"body", headers=headers)
        head, _, body = server.received[0].partition(b"\r\n\r\n")
    assert response == HttpAnswer(200, {"content-length": "2", "x-a": "1, 2", "x-b": "b"}, b"{}")
    lines = head.split(b"\r\n")
    assert lines[0] == b"PUT /a/b?c=%20d HTTP/1.1"
    assert {b"Content-Type: text/plain", b"Content-Length: 4", "X-Custom: é".encode()} <= set(lines)
    assert b"Content-Type: application/json" not in lines
    assert body == b"body"


def test_compressed_response_is_decoded() -> None:
    compressed = http_response(gzip.compress(b"text"), b"Content-Encoding: gzip")
    with Misbehaving(lambda _: compressed) as server, Client(server.url) as client:
        assert client.request("GET", "/").text == "text"


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "Connection"])
def test_framing_headers_are_rejected(name: str, urls: dict[str, str]) -> None:
    with Client(urls["http"]) as client, pytest.raises(InvalidInput, match=f"header '{name}' is the client's own"):
        client.request("GET", "/v2", headers={name: "1"})


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("GET", "v2", "the path 'v2' is not"),
        ("GET", "/a b", "the path '/a b' is not"),
        ("G T", "/", "'G T' is not a method"),
        ("CONNECT", "/", "'CONNECT' is not a method"),
    ],
)
def test_invalid_requests_are_rejected(method: str, path: str, message: str, urls: dict[str, str]) -> None:
    with Client(urls["http"]) as client, pytest.raises(InvalidInput, match=message):
        client.request(method, path)


def test_only_repeatable_requests_are_retried_after_a_loss() -> None:
    for method, repeatable, attempts in [("POST", None, 1), ("POST", True, 3), ("GET", None, 3), ("GET", False, 1)]:
        with Misbehaving(lambda _: None) as server, Client(server.url, retries=2, backoff=0.01) as client:
            with pytest.raises(Unavailable, match="lost"):
                client.request(method, "/", repeatable=repeatable)
            assert server.requests == attempts, (method, repeatable)


def test_error_status_is_not_retried() -> None:
    with Misbehaving(lambda _: refusal(503, b"Retry-After: 0")) as server:
        with Client(server.url, retries=2, backoff=0.01) as client:
            assert client.request("GET", "/").status == 503
        assert server.requests == 1


def test_request_timeout_is_enforced() -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
    with Misbehaving(lambda _: half) as server, Client(server.url) as client, pytest.raises(Timeout):
        client.request("GET", "/", timeout=0.2)


@pytest.mark.parametrize("scheme", ["grpc", "grpc+unix"])
def test_call_reaches_any_grpc_method(scheme: str, urls: dict[str, str]) -> None:
    # Field 1 is the model name in the request, and the readiness in the response.
    assert call_both(urls[scheme], "call", READY, b"\n\x06double") == b"\x08\x01"
    assert call_both(urls[scheme], "call", f"/{READY}", b"\n\x06double", headers={"x-a": "1"}) == b"\x08\x01"


def test_failed_grpc_call_raises_its_status(urls: dict[str, str]) -> None:
    with Client(urls["grpc"]) as client:
        with pytest.raises(NotFound, match="unknown") as not_found:
            client.call("inference.GRPCInferenceService/ModelMetadata", b"\n\x07unknown")
        assert not_found.value.status == 5
        with pytest.raises(Unsupported) as unknown:
            client.call("no.Service/Method", b"")
        assert unknown.value.status == 12


def test_request_requires_http_and_call_requires_grpc(urls: dict[str, str]) -> None:
    with Client(urls["grpc"]) as client, pytest.raises(Unsupported, match=r"uses gRPC.*use call"):
        client.request("GET", "/")
    with Client(urls["http"]) as client, pytest.raises(Unsupported, match=r"uses HTTP.*use request"):
        client.call(READY, b"")


def test_hedged_client_supports_raw_requests(urls: dict[str, str]) -> None:
    with Client(urls["http"], hedge=5) as client:
        assert client.request("GET", "/v2").ok


def test_connection_is_not_reused_after_a_500() -> None:
    # Some servers close the connection then without `Connection: close`.
    with Misbehaving(lambda number: refusal(500 if number == 1 else 503)) as server, Client(server.url) as client:
        assert [client.request("POST", "/").status for _ in range(4)] == [503, 500, 503, 503]
        assert server.connections == 2
