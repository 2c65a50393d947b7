"""Custom routes of models: the request that a handler receives, and its response."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from http_by_hand import connect, get, metric_at, post, read_response
from models import routed
from penstock import Request, Response, Server, SignatureError, model
from penstock.testing import Client


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(*routed.MODELS, http="127.0.0.1:0", grpc=None, compress_answers=True) as running:
        yield running


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.http_url) as client:
        yield client


def test_handler_receives_the_request_unchanged(http: httpx.Client) -> None:
    headers = {"X-Said": "hello", "X-Request-Id": "r-1"}
    response = http.post("/score/anna%20m%2F%C3%BC?x=1&y=%20", content=b"\xff{}", headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == {
        "route": "POST /score/{customer}",
        "method": "POST",
        "path": "/score/anna%20m%2F%C3%BC",
        "query": "x=1&y=%20",
        "parts": {"customer": "anna m/ü"},
        "id": "r-1",
        "protocol": "http",
        "said": "hello",
        "body": "\xff{}",
    }
    assert http.get("/files/a/b%2Fc/").json()["parts"] == {"path": "a/b/c/"}


def test_bodies_are_inflated_and_may_be_chunked(http: httpx.Client) -> None:
    import gzip

    compressed = http.post("/score/a", content=gzip.compress(b"plain"), headers={"Content-Encoding": "gzip"})
    assert compressed.json()["body"] == "plain"
    chunked = http.post("/score/a", content=iter([b"in ", b"chunks"]))
    assert chunked.json()["body"] == "in chunks"
    unsupported = http.post("/score/a", content=b"x", headers={"Content-Encoding": "compress"})
    assert unsupported.status_code == 415


def test_batched_requests_get_separate_responses(http: httpx.Client) -> None:
    assert http.post("/joined", content=b"ab").content == b"abab"
    rejected = http.post("/joined", content=b"bad")
    assert (rejected.status_code, rejected.json()) == (404, {"error": "no such thing"})


def test_async_handler_may_return_text(http: httpx.Client) -> None:
    response = http.get("/later/anna")
    assert (response.text, response.headers["content-type"]) == ("anna ü", "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    ("case", "status", "content_type", "body"),
    [
        ("bytes", 200, "application/octet-stream", b"\x00\x01"),
        ("text", 200, "text/plain; charset=utf-8", "ü".encode()),
        ("empty", 200, None, b""),
        ("typed", 200, "text/csv", b"1,2"),
        ("named", 200, "text/csv", b"1,2"),
        ("created", 201, "text/plain; charset=utf-8", b"made"),
        ("refused", 422, "application/json", b'{"detail": "no"}'),
    ],
)
def test_response_body_is_sent_unchanged(
    http: httpx.Client, case: str, status: int, content_type: str | None, body: bytes
) -> None:
    response = http.get(f"/answer/{case}")
    assert (response.status_code, response.headers.get("content-type"), response.content) == (
        status,
        content_type,
        body,
    )
    assert response.headers["content-length"] == str(len(body))


def test_response_headers_may_repeat(http: httpx.Client) -> None:
    assert http.get("/answer/created").headers["location"] == "/made/1"
    assert http.get("/answer/cookies").headers.get_list("set-cookie") == ["a=1", "b=2"]


def test_status_204_has_no_body(http: httpx.Client) -> None:
    response = http.delete("/answer/gone")
    assert (response.status_code, response.content) == (204, b"")
    assert http.get("/answer/bytes").status_code == 200


def test_output_tensors_are_sent_as_v2_json(http: httpx.Client) -> None:
    response = http.get("/answer/tensors")
    assert (response.status_code, response.headers["x-own"], response.headers["content-type"]) == (
        202,
        "1",
        "application/json",
    )
    (output,) = response.json()["outputs"]
    assert (output["name"], output["datatype"], output["data"]) == ("y", "FP64", [1.5, 2.5])
    assert http.get("/answer/dict").json()["outputs"][0]["data"] == [1, 2]


def test_handler_errors_set_status_and_message(http: httpx.Client) -> None:
    rejected = http.get("/answer/error")
    assert (rejected.status_code, rejected.json()) == (404, {"error": "there is none"})
    for case, text in (
        ("defect", "model 'answers' failed: RuntimeError"),
        ("split", "model 'answers' failed: ValueError"),
    ):
        defect = http.get(f"/answer/{case}")
        assert (defect.status_code, defect.json()) == (500, {"error": text})
    wrong = http.get("/answer/number")
    assert wrong.status_code == 500
    assert "int" in wrong.json()["error"]


def test_head_is_get_without_a_body(http: httpx.Client) -> None:
    response = http.head("/answer/created")
    assert (response.status_code, response.headers["content-length"], response.content) == (201, "4", b"")
    stream = http.head("/pieces/all")
    assert (stream.status_code, stream.headers["x-first"], stream.content) == (202, "1", b"")
    assert "content-length" not in stream.headers


def test_unsupported_methods_return_405_with_allow(http: httpx.Client) -> None:
    response = http.put("/score/a")
    assert (response.status_code, response.headers["allow"], response.json()) == (
        405,
        "GET, HEAD, POST",
        {"error": "Method Not Allowed"},
    )
    for path in ("/score", "/score/", "/score/a/b", "/files", "/nothing"):
        assert http.get(path).json() == {"error": "Not Found"}


def test_chunks_are_streamed(http: httpx.Client) -> None:
    with http.stream("GET", "/pieces/all") as response:
        assert (response.status_code, response.headers["x-first"], response.headers["content-type"]) == (
            202,
            "1",
            "text/csv",
        )
        assert response.headers["transfer-encoding"] == "chunked"
        assert "x-late" not in response.headers
        assert b"".join(response.iter_raw()) == b"abc"
    none, one = http.get("/pieces/none"), http.get("/pieces/one")
    assert (none.status_code, none.content) == (200, b"")
    assert (one.status_code, one.content, one.headers["content-length"]) == (203, b"alone", "5")


def test_stream_error_before_the_first_chunk_sets_the_status(http: httpx.Client) -> None:
    rejected = http.get("/pieces/refused")
    assert (rejected.status_code, rejected.json()) == (404, {"error": "no such stream"})


def test_stream_error_after_the_first_chunk_aborts_the_response(server: Server, http: httpx.Client) -> None:
    before = metric_at(server.http_url, "penstock_requests_total", model="pieces", outcome="not_found")
    with http.stream("GET", "/pieces/broken") as response:
        assert response.status_code == 202
        with pytest.raises(httpx.RemoteProtocolError):
            b"".join(response.iter_raw())
    after = metric_at(server.http_url, "penstock_requests_total", model="pieces", outcome="not_found")
    assert after == before + 1


def test_long_response_is_compressed_if_accepted(http: httpx.Client) -> None:
    compressed = http.get("/answer/long", headers={"Accept-Encoding": "gzip"})
    assert (compressed.headers["content-encoding"], compressed.text) == ("gzip", "long " * 1000)
    assert "content-encoding" not in http.get("/answer/long", headers={"Accept-Encoding": "identity"}).headers
    # A body that the handler compressed is not compressed again.
    with http.stream("GET", "/answer/packed", headers={"Accept-Encoding": "gzip"}) as custom:
        assert (custom.headers["content-encoding"], b"".join(custom.iter_raw())) == ("br", b"x" * 5000)


def test_v2_responses_use_custom_status_and_headers(server: Server) -> None:
    infer = lambda case: post(  # noqa: E731
        server.http_url, "/v2/models/answers/infer", json.dumps({"inputs": [], "parameters": {"which": case}}).encode()
    )
    tensors = infer("tensors")
    assert (tensors.status, tensors.headers["x-own"], tensors.headers["content-type"]) == (202, "1", "application/json")
    assert tensors.json()["outputs"][0]["data"] == [1.5, 2.5]
    rejected = infer("refused")
    assert (rejected.status, rejected.body) == (422, b'{"detail": "no"}')


def test_custom_route_precedes_built_in_paths() -> None:
    @model(
        name="m", routes=["POST /v2/models/{m}/infer", "GET /metrics", "POST /v1/models/m:predict", "GET /v1/models/x"]
    )
    def custom(request: Request) -> Any:
        return request.route or {"y": [1]}

    with Server(custom, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        assert get(url, "/metrics").body == b"GET /metrics"
        assert post(url, "/v1/models/m%3Apredict", b"{}").body == b"POST /v1/models/m:predict"
        assert get(url, "/v1/models/x").body == b"GET /v1/models/x"
        # A pattern does not replace the built-in inference path.
        assert post(url, "/v2/models/m/infer", b'{"inputs": []}').json()["outputs"][0]["data"] == [1]
        # Other methods of a built-in path stay built in, and Allow lists both.
        assert get(url, "/v1/models/m").status == 200
        rejected = post(url, "/metrics", b"")
        assert (rejected.status, rejected.headers["allow"]) == (405, "GET, HEAD")


def test_duplicate_route_is_rejected() -> None:
    def handler(request: Request) -> bytes:
        return b""

    one = model(handler, name="one", routes=["POST /score/{customer}"])
    two = model(handler, name="two", routes=["GET /x", "POST /score/{client}"])
    with pytest.raises(SignatureError, match=r"models 'one' and 'two' both have the route 'POST /score/\{client\}'"):
        Server(one, two, http="127.0.0.1:0", grpc=None).start()


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("/score", "has no method or no path, expected for example 'POST /score/{customer}'"),
        ("post /score", "has no method before its path, expected for example GET or POST, in capitals"),
        ("POST score", "has a path that does not begin with '/'"),
        ("POST /a?b=1", "has '?' in its path, which is written decoded and without a query"),
        ("POST /{a}{b}", "has two parts with nothing between them"),
        ("POST /{a}/{a}", "has two parts named 'a'"),
        ("POST /{a...}/b", "has {a...}, which is possible only at the end, as a segment of its own"),
        ("POST /{a", "has a brace that is not closed"),
        ("POST /{1}", "has a part named '1', expected a letter, then letters, digits and '_'"),
    ],
)
def test_invalid_route_is_rejected_at_start(route: str, expected: str) -> None:
    def handler(request: Request) -> bytes:
        return b""

    with pytest.raises(SignatureError) as raised:
        Server(model(handler, name="m", routes=[route]), http="127.0.0.1:0", grpc=None).start()
    assert str(raised.value) == f"model 'm': the route {json.dumps(route)} {expected}"


def test_in_process_client_reaches_routes() -> None:
    with Client(routed.score) as client:
        assert client.get("/score/a?x=1").json()["query"] == "x=1"


def test_oversize_request_is_rejected_before_its_body(server: Server) -> None:
    with connect(server.http_url) as sock:
        sock.sendall(b"POST /score/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
        response = read_response(sock)
    assert (response.status, response.headers["connection"]) == (413, "close")
    assert "at most" in response.error()


def test_direct_call_returns_the_handlers_response() -> None:
    request = Request(route="POST /score/{customer}", method="POST", path="/score/a", body=b"x")
    response = routed.score(request)
    assert isinstance(response, Response)
    assert json.loads(response.body or b"")["path"] == "/score/a"
