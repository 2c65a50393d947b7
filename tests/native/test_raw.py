"""Requests that are sent as they are: `request` over HTTP, `call` over gRPC."""

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


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


def both(url: str, method: str, *arguments: Any, **options: Any) -> Any:
    """What both kinds of clients say, which is the same."""

    async def asynchronous() -> Any:
        async with AsyncClient(url) as client:
            return await getattr(client, method)(*arguments, **options)

    with Client(url) as client:
        said = getattr(client, method)(*arguments, **options)
    again = asyncio.run(asynchronous())
    assert isinstance(again, type(said))
    return said


@pytest.mark.parametrize("scheme", ["http", "unix"])
def test_any_path_is_asked(scheme: str, urls: dict[str, str]) -> None:
    said = both(urls[scheme], "request", "GET", "/v2/models/double")
    assert (said.status, said.ok, said.json()["name"]) == (200, True, "double")
    assert said.headers["content-type"] == "application/json"
    posted = both(urls[scheme], "request", "POST", "/v2/models/double/infer", json.dumps(DOUBLE))
    assert posted.json()["outputs"][0]["data"] == [2, 4, 6]


def test_a_refusal_is_an_answer(urls: dict[str, str]) -> None:
    said = both(urls["http"], "request", "GET", "/v2/models/unknown")
    assert (said.status, said.ok) == (404, False)
    assert "unknown" in said.json()["error"]


def test_a_head_has_no_body_and_the_connection_goes_on(urls: dict[str, str]) -> None:
    with Client(urls["http"]) as client:
        assert client.request("HEAD", "/v2").body == b""
        assert client.request("GET", "/v2").json()["name"]


def test_headers_and_body_go_as_they_are() -> None:
    with Misbehaving(lambda _: answer(b"{}", b"X-A: 1", b"x-a: 2", b"X-B:  b ")) as server:
        with Client(server.url) as client:
            headers = {"Content-Type": "text/plain", "inference-header-content-length": "3", "X-Own": "é"}
            said = client.request("PUT", "/a/b?c=%20d", b"body", headers=headers)
        head, _, body = server.received[0].partition(b"\r\n\r\n")
    assert said == HttpAnswer(200, {"content-length": "2", "x-a": "1, 2", "x-b": "b"}, b"{}")
    lines = head.split(b"\r\n")
    assert lines[0] == b"PUT /a/b?c=%20d HTTP/1.1"
    assert {b"Content-Type: text/plain", b"Content-Length: 4", "X-Own: é".encode()} <= set(lines)
    assert b"Content-Type: application/json" not in lines
    assert body == b"body"


def test_a_compressed_answer_is_read() -> None:
    compressed = answer(gzip.compress(b"text"), b"Content-Encoding: gzip")
    with Misbehaving(lambda _: compressed) as server, Client(server.url) as client:
        assert client.request("GET", "/").text == "text"


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "Connection"])
def test_the_framing_is_the_clients_own(name: str, urls: dict[str, str]) -> None:
    with Client(urls["http"]) as client, pytest.raises(InvalidInput, match=f"header '{name}' is the client's own"):
        client.request("GET", "/v2", headers={name: "1"})


@pytest.mark.parametrize(
    ("method", "path", "why"),
    [
        ("GET", "v2", "the path 'v2' is not"),
        ("GET", "/a b", "the path '/a b' is not"),
        ("G T", "/", "'G T' is not a method"),
        ("CONNECT", "/", "'CONNECT' is not a method"),
    ],
)
def test_what_is_no_request_is_refused(method: str, path: str, why: str, urls: dict[str, str]) -> None:
    with Client(urls["http"]) as client, pytest.raises(InvalidInput, match=why):
        client.request(method, path)


def test_only_what_reads_is_asked_again_after_a_loss() -> None:
    for method, repeatable, asked in [("POST", None, 1), ("POST", True, 3), ("GET", None, 3), ("GET", False, 1)]:
        with Misbehaving(lambda _: None) as server, Client(server.url, retries=2, backoff=0.01) as client:
            with pytest.raises(Unavailable, match="lost"):
                client.request(method, "/", repeatable=repeatable)
            assert server.requests == asked, (method, repeatable)


def test_a_refusal_is_not_asked_again() -> None:
    with Misbehaving(lambda _: refusal(503, b"Retry-After: 0")) as server:
        with Client(server.url, retries=2, backoff=0.01) as client:
            assert client.request("GET", "/").status == 503
        assert server.requests == 1


def test_a_request_has_a_deadline() -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
    with Misbehaving(lambda _: half) as server, Client(server.url) as client, pytest.raises(Timeout):
        client.request("GET", "/", timeout=0.2)


@pytest.mark.parametrize("scheme", ["grpc", "grpc+unix"])
def test_any_grpc_method_is_called(scheme: str, urls: dict[str, str]) -> None:
    # Field 1 is the name of the model, and of the answer whether it is ready.
    assert both(urls[scheme], "call", READY, b"\n\x06double") == b"\x08\x01"
    assert both(urls[scheme], "call", f"/{READY}", b"\n\x06double", headers={"x-a": "1"}) == b"\x08\x01"


def test_a_refused_call_says_why(urls: dict[str, str]) -> None:
    with Client(urls["grpc"]) as client:
        with pytest.raises(NotFound, match="unknown") as caught:
            client.call("inference.GRPCInferenceService/ModelMetadata", b"\n\x07unknown")
        assert caught.value.status == 5
        with pytest.raises(Unsupported) as unknown:
            client.call("no.Service/Method", b"")
        assert unknown.value.status == 12


def test_each_kind_of_url_has_its_own(urls: dict[str, str]) -> None:
    with Client(urls["grpc"]) as client, pytest.raises(Unsupported, match=r"uses gRPC.*use call"):
        client.request("GET", "/")
    with Client(urls["http"]) as client, pytest.raises(Unsupported, match=r"uses HTTP.*use request"):
        client.call(READY, b"")


def test_a_hedged_client_sends_them_too(urls: dict[str, str]) -> None:
    with Client(urls["http"], hedge=5) as client:
        assert client.request("GET", "/v2").ok


def test_a_connection_is_not_used_again_after_a_500() -> None:
    # Some servers close it then, and do not say so.
    with Misbehaving(lambda number: refusal(500 if number == 1 else 503)) as server, Client(server.url) as client:
        assert [client.request("POST", "/").status for _ in range(4)] == [503, 500, 503, 503]
        assert server.connections == 2
