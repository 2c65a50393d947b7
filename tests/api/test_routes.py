"""Routes of models' own: what a handler is handed, and what its caller gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from http_by_hand import connect, get, metric_at, post, read_answer
from models import routed
from penstock import Request, Response, Server, SignatureError, model
from penstock.testing import Client


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(*routed.MODELS, http="127.0.0.1:0", grpc=None, compress_answers=True) as running:
        yield running


@pytest.fixture
def web(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.http_url) as client:
        yield client


def test_a_handler_is_handed_the_request_as_it_was_sent(web: httpx.Client) -> None:
    headers = {"X-Said": "hello", "X-Request-Id": "r-1"}
    answer = web.post("/score/anna%20m%2F%C3%BC?x=1&y=%20", content=b"\xff{}", headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {
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
    assert web.get("/files/a/b%2Fc/").json()["parts"] == {"path": "a/b/c/"}


def test_bodies_are_inflated_and_come_in_chunks_too(web: httpx.Client) -> None:
    import gzip

    packed = web.post("/score/a", content=gzip.compress(b"plain"), headers={"Content-Encoding": "gzip"})
    assert packed.json()["body"] == "plain"
    chunked = web.post("/score/a", content=iter([b"in ", b"chunks"]))
    assert chunked.json()["body"] == "in chunks"
    unread = web.post("/score/a", content=b"x", headers={"Content-Encoding": "compress"})
    assert unread.status_code == 415


def test_requests_that_are_joined_are_answered_each_by_itself(web: httpx.Client) -> None:
    assert web.post("/joined", content=b"ab").content == b"abab"
    refused = web.post("/joined", content=b"bad")
    assert (refused.status_code, refused.json()) == (404, {"error": "no such thing"})


def test_an_async_handler_answers_text(web: httpx.Client) -> None:
    answer = web.get("/later/anna")
    assert (answer.text, answer.headers["content-type"]) == ("anna ü", "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    ("which", "status", "kind", "body"),
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
def test_a_body_goes_out_as_it_is(web: httpx.Client, which: str, status: int, kind: str | None, body: bytes) -> None:
    answer = web.get(f"/answer/{which}")
    assert (answer.status_code, answer.headers.get("content-type"), answer.content) == (status, kind, body)
    assert answer.headers["content-length"] == str(len(body))


def test_headers_are_the_models_and_one_may_come_twice(web: httpx.Client) -> None:
    assert web.get("/answer/created").headers["location"] == "/made/1"
    assert web.get("/answer/cookies").headers.get_list("set-cookie") == ["a=1", "b=2"]


def test_a_status_without_a_body_has_none(web: httpx.Client) -> None:
    answer = web.delete("/answer/gone")
    assert (answer.status_code, answer.content) == (204, b"")
    assert web.get("/answer/bytes").status_code == 200


def test_tensors_go_out_as_v2_has_them(web: httpx.Client) -> None:
    answer = web.get("/answer/tensors")
    assert (answer.status_code, answer.headers["x-own"], answer.headers["content-type"]) == (
        202,
        "1",
        "application/json",
    )
    (output,) = answer.json()["outputs"]
    assert (output["name"], output["datatype"], output["data"]) == ("y", "FP64", [1.5, 2.5])
    assert web.get("/answer/dict").json()["outputs"][0]["data"] == [1, 2]


def test_errors_are_what_they_are_everywhere(web: httpx.Client) -> None:
    refused = web.get("/answer/error")
    assert (refused.status_code, refused.json()) == (404, {"error": "there is none"})
    for which, text in (
        ("defect", "model 'answers' failed: RuntimeError"),
        ("split", "model 'answers' failed: ValueError"),
    ):
        defect = web.get(f"/answer/{which}")
        assert (defect.status_code, defect.json()) == (500, {"error": text})
    wrong = web.get("/answer/number")
    assert wrong.status_code == 500
    assert "int" in wrong.json()["error"]


def test_head_is_get_without_a_body(web: httpx.Client) -> None:
    answer = web.head("/answer/created")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (201, "4", b"")
    stream = web.head("/pieces/all")
    assert (stream.status_code, stream.headers["x-first"], stream.content) == (202, "1", b"")
    assert "content-length" not in stream.headers


def test_other_methods_are_refused_and_named(web: httpx.Client) -> None:
    answer = web.put("/score/a")
    assert (answer.status_code, answer.headers["allow"], answer.json()) == (
        405,
        "GET, HEAD, POST",
        {"error": "Method Not Allowed"},
    )
    for path in ("/score", "/score/", "/score/a/b", "/files", "/nothing"):
        assert web.get(path).json() == {"error": "Not Found"}


def test_pieces_are_sent_as_they_come(web: httpx.Client) -> None:
    with web.stream("GET", "/pieces/all") as answer:
        assert (answer.status_code, answer.headers["x-first"], answer.headers["content-type"]) == (202, "1", "text/csv")
        assert answer.headers["transfer-encoding"] == "chunked"
        assert "x-late" not in answer.headers
        assert b"".join(answer.iter_raw()) == b"abc"
    none, one = web.get("/pieces/none"), web.get("/pieces/one")
    assert (none.status_code, none.content) == (200, b"")
    assert (one.status_code, one.content, one.headers["content-length"]) == (203, b"alone", "5")


def test_a_stream_that_fails_before_its_first_piece_has_a_status(web: httpx.Client) -> None:
    refused = web.get("/pieces/refused")
    assert (refused.status_code, refused.json()) == (404, {"error": "no such stream"})


def test_a_stream_that_fails_later_ends_abnormally(server: Server, web: httpx.Client) -> None:
    before = metric_at(server.http_url, "penstock_requests_total", model="pieces", outcome="not_found")
    with web.stream("GET", "/pieces/broken") as answer:
        assert answer.status_code == 202
        with pytest.raises(httpx.RemoteProtocolError):
            b"".join(answer.iter_raw())
    after = metric_at(server.http_url, "penstock_requests_total", model="pieces", outcome="not_found")
    assert after == before + 1


def test_a_long_answer_is_compressed_for_those_who_ask(web: httpx.Client) -> None:
    packed = web.get("/answer/long", headers={"Accept-Encoding": "gzip"})
    assert (packed.headers["content-encoding"], packed.text) == ("gzip", "long " * 1000)
    assert "content-encoding" not in web.get("/answer/long", headers={"Accept-Encoding": "identity"}).headers
    # What the handler has compressed is left alone.
    with web.stream("GET", "/answer/packed", headers={"Accept-Encoding": "gzip"}) as own:
        assert (own.headers["content-encoding"], b"".join(own.iter_raw())) == ("br", b"x" * 5000)


def test_v2_answers_have_the_status_and_headers_too(server: Server) -> None:
    ask = lambda which: post(  # noqa: E731
        server.http_url, "/v2/models/answers/infer", json.dumps({"inputs": [], "parameters": {"which": which}}).encode()
    )
    tensors = ask("tensors")
    assert (tensors.status, tensors.headers["x-own"], tensors.headers["content-type"]) == (202, "1", "application/json")
    assert tensors.json()["outputs"][0]["data"] == [1.5, 2.5]
    refused = ask("refused")
    assert (refused.status, refused.body) == (422, b'{"detail": "no"}')


def test_a_route_goes_before_what_is_built_in() -> None:
    @model(
        name="m", routes=["POST /v2/models/{m}/infer", "GET /metrics", "POST /v1/models/m:predict", "GET /v1/models/x"]
    )
    def own(request: Request) -> Any:
        return request.route or {"y": [1]}

    with Server(own, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        assert get(url, "/metrics").body == b"GET /metrics"
        assert post(url, "/v1/models/m%3Apredict", b"{}").body == b"POST /v1/models/m:predict"
        assert get(url, "/v1/models/x").body == b"GET /v1/models/x"
        # A pattern takes no inference.
        assert post(url, "/v2/models/m/infer", b'{"inputs": []}').json()["outputs"][0]["data"] == [1]
        # Other methods of a built-in path stay built in, and others' names are told of both.
        assert get(url, "/v1/models/m").status == 200
        refused = post(url, "/metrics", b"")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


def test_two_models_cannot_have_one_route() -> None:
    def made(name: str, *routes: str) -> Any:
        return model(lambda request: b"", name=name, routes=routes)

    def handler(request: Request) -> bytes:
        return b""

    one = model(handler, name="one", routes=["POST /score/{customer}"])
    two = model(handler, name="two", routes=["GET /x", "POST /score/{who}"])
    with pytest.raises(SignatureError, match=r"models 'one' and 'two' both have the route 'POST /score/\{who\}'"):
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
def test_what_is_no_route_is_refused_at_the_start(route: str, expected: str) -> None:
    def handler(request: Request) -> bytes:
        return b""

    with pytest.raises(SignatureError) as raised:
        Server(model(handler, name="m", routes=[route]), http="127.0.0.1:0", grpc=None).start()
    assert str(raised.value) == f"model 'm': the route {json.dumps(route)} {expected}"


def test_without_a_socket_routes_are_there_too() -> None:
    with Client(routed.score) as client:
        assert client.get("/score/a?x=1").json()["query"] == "x=1"


def test_a_small_socket_sees_a_refused_request_whole(server: Server) -> None:
    with connect(server.http_url) as sock:
        sock.sendall(b"POST /score/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
        answer = read_answer(sock)
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert "at most" in answer.error()


def test_the_answer_is_the_handlers_own_object() -> None:
    request = Request(route="POST /score/{customer}", method="POST", path="/score/a", body=b"x")
    answer = routed.score(request)
    assert isinstance(answer, Response)
    assert json.loads(answer.body or b"")["path"] == "/score/a"
