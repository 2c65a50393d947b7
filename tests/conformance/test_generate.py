"""Generate and its streams over REST (cases E11 to E25, traps T33, T34, T35 and T63)."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from models.streams import TAP
from penstock import Server
from waiting import until


@pytest.fixture
def post(streams: Server) -> Any:
    def post(path: str, body: Any, **options: Any) -> requests.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return requests.post(f"{streams.http_url}/v2/models/{path}", data=data, timeout=30, **options)

    return post


@pytest.fixture
def tap() -> Any:
    TAP.reset()
    return TAP


def events(response: requests.Response) -> list[Any]:
    """The events of a response, after a check of their exact framing."""
    text = response.content.decode()
    assert text == "" or text.endswith("\n\n")
    event_texts = text.split("\n\n")[:-1]
    assert all(event.startswith("data: ") and "\n" not in event for event in event_texts)
    return [json.loads(event.removeprefix("data: ")) for event in event_texts]


def head(name: str) -> dict[str, Any]:
    return {"model_name": name, "model_version": "1"}


def test_e11_single_elements_are_scalars_and_several_are_lists(post: Any) -> None:
    assert post("echo/generate", {"x": "hi"}).json() == {**head("echo"), "y": "hi"}
    assert post("echo/generate", {"x": ["a", "b"]}).json() == {**head("echo"), "y": ["a", "b"]}
    assert post("echo/generate", {"x": []}).json() == {**head("echo"), "y": []}


def test_e12_unknown_key_becomes_a_parameter(post: Any) -> None:
    response = post("complete/generate", {"text_input": "hi", "temperature": 0.5, "parameters": {"max_tokens": 3}})
    assert response.status_code == 200
    assert response.json()["request_parameters"] == "max_tokens=3,temperature=0.5"


def test_e13_nested_member_named_after_an_input_is_its_tensor(post: Any) -> None:
    response = post("complete/generate", {"parameters": {"text_input": "hi", "k": True}})
    assert (response.json()["output"], response.json()["request_parameters"]) == ("HI", "k=True")


def test_e14_parameters_may_be_lists_but_not_nested(post: Any) -> None:
    response = post("complete/generate", {"text_input": "hi", "stop": ["\n", "."]})
    assert response.json()["request_parameters"] == "stop=['\\n', '.']"
    response = post("complete/generate", {"text_input": "hi", "stop": [["a"]]})
    assert response.status_code == 400
    expected = "parameter 'stop' has an array in its list, expected booleans, numbers or strings"
    assert response.json() == {"error": expected}


def test_e15_missing_input_is_named(post: Any) -> None:
    for verb in ("generate", "generate_stream"):
        response = post(f"echo/{verb}", {"z": 1})
        assert (response.status_code, response.headers["content-type"]) == (400, "application/json")
        assert response.json() == {"error": "input 'x' is missing, model 'echo' expects 'x'"}


@pytest.mark.trap("T33")
@pytest.mark.parametrize(("name", "count"), [("stream3", "more"), ("stream0", "none")])
def test_e16_generate_with_zero_or_several_responses_is_500_t33(post: Any, name: str, count: str) -> None:
    response = post(f"{name}/generate", {"n": 1})
    assert (response.status_code, response.headers["content-type"]) == (500, "application/json")
    text = f"generate expects exactly 1 answer, model '{name}' gave {count}: call generate_stream"
    assert response.json() == {"error": text}
    assert post("stream1/generate", {"n": 7}).json() == {**head("stream1"), "i": 7}


def test_e17_stream_has_exactly_its_events(post: Any) -> None:
    response = post("stream3/generate_stream", {"n": 5})
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    expected = "".join(f'data: {{"model_name":"stream3","model_version":"1","i":{i}}}\n\n' for i in (5, 6, 7))
    assert response.content.decode() == expected


def test_e18_events_are_sent_immediately(streams: Server, tap: Any) -> None:
    url = f"{streams.http_url}/v2/models/stepped/generate_stream"
    tap.go_on.release()
    with requests.post(url, json={"n": 3}, stream=True, timeout=20) as response:
        lines = response.iter_lines()
        for i in range(3):
            # The next chunk is not produced before this one was read.
            assert json.loads(next(lines).decode().removeprefix("data: "))["i"] == i
            assert next(lines) == b""
            tap.go_on.release()
        assert list(lines) == []


@pytest.mark.fault("generator raises midway")
def test_e19_error_after_the_first_chunk_is_the_last_event(post: Any) -> None:
    response = post("stream_err/generate_stream", {"n": 1})
    assert response.status_code == 200
    assert events(response) == [
        {**head("stream_err"), "i": 1},
        {**head("stream_err"), "i": 2},
        {"error": "the third chunk is missing"},
    ]


def test_e19_undeclared_chunk_shape_is_an_error(post: Any) -> None:
    first, error = events(post("stream_bad/generate_stream", {"n": 1}))
    assert first["i"] == 1
    assert error == {"error": "model 'stream_bad' returned output 'i' with shape [2], declared [1]"}


@pytest.mark.trap("T35")
def test_e20_error_before_the_first_chunk_sets_the_status_t35(post: Any) -> None:
    response = post("stream_no/generate_stream", {"n": 1})
    assert (response.status_code, response.headers["content-type"]) == (404, "application/json")
    assert response.json() == {"error": "nothing here"}


def test_e21_stream_without_chunks_is_empty(post: Any) -> None:
    response = post("stream0/generate_stream", {"n": 1})
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "request JSON at byte 0: expected a JSON object"),
        (b"{", "request JSON at byte 1: expected ',' or '}'"),
        (b'{"n":1} x', "request JSON at byte 8: expected nothing after the request's object"),
        (b'{"n":1.5}', "input 'n' has 1.5 at byte 5, INT32 takes integers from -2147483648 to 2147483647"),
        (b'{"n":[1,2]}', "input 'n' has 2 elements, which do not fill the shape [1] that model 'stream3' expects"),
        (b'{"n":1,"n":1}', "input 'n' is given twice"),
        (b'{"n":1,"id":5}', "request JSON at byte 12: expected a string for 'id'"),
        (b'{"n":1,"details":1}', "request JSON at byte 17: expected a boolean for 'details'"),
    ],
)
@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
def test_e22_invalid_body_is_refused_as_json(post: Any, verb: str, body: bytes, text: str) -> None:
    response = post(f"stream3/{verb}", body)
    assert (response.status_code, response.headers["content-type"]) == (400, "application/json")
    assert response.json() == {"error": text}


def test_e23_request_id_is_in_every_event(post: Any) -> None:
    received = events(post("stream3/generate_stream", {"n": 1, "id": "q7"}))
    assert [event["id"] for event in received] == ["q7"] * 3


def test_e24_requested_version_answers(post: Any) -> None:
    assert post("echo/versions/1/generate", {"x": "a"}).json()["model_version"] == "1"
    assert events(post("stream3/versions/1/generate_stream", {"n": 1}))[0]["model_version"] == "1"
    missing = post("echo/versions/9/generate", {"x": "a"})
    assert (missing.status_code, missing.json()) == (404, {"error": "model 'echo' has no version '9'"})
    assert post("nobody/generate_stream", {}).status_code == 404


@pytest.mark.fault("leaves in a stream")
def test_e25_client_disconnect_closes_the_generator(streams: Server, tap: Any) -> None:
    url = f"{streams.http_url}/v2/models/endless/generate_stream"
    with requests.post(url, json={"n": 1}, stream=True, timeout=20) as response:
        assert next(response.iter_lines()).startswith(b"data: ")
    assert tap.closed.wait(20)
    assert tap.cancelled.is_set()


def stands_still(tap: Any) -> int:
    """The number of chunks yielded, if it is unchanged for a second; else 0."""
    yielded: int = tap.yielded
    for _ in range(20):
        threading.Event().wait(0.05)
        if tap.yielded != yielded:
            return 0
    return yielded


def test_unread_stream_pauses_the_generator(streams: Server, tap: Any) -> None:
    address = urlsplit(streams.http_url)
    assert address.hostname is not None
    with socket.socket() as client:
        # A small buffer, so that little fits between the generator and this test.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((address.hostname, address.port))
        body = b'{"n":0}'
        client.sendall(
            b"POST /v2/models/endless/generate_stream HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
            % len(body)
            + body
        )
        paused_at = until(lambda: stands_still(tap), "the generator to pause")
        assert paused_at < 500_000
        # It continues as soon as the client reads.
        read = 0
        while tap.yielded == paused_at and read < 64 << 20:
            read += len(client.recv(65536))
        assert tap.yielded > paused_at
    assert tap.closed.wait(20)


@pytest.mark.trap("T63")
def test_infer_stream_takes_infer_bodies_and_streams_infer_responses_t63(post: Any) -> None:
    body = {"id": "7", "inputs": [{"name": "n", "datatype": "INT32", "shape": [1], "data": [4]}]}
    for verb in ("infer_stream", "generate_stream"):
        received = events(post(f"stream3/{verb}", body))
        assert [event["outputs"][0] for event in received] == [
            {"name": "i", "datatype": "INT32", "shape": [1], "data": [i]} for i in (4, 5, 6)
        ]
        assert all((event["id"], event["model_version"]) == ("7", "1") for event in received)
    assert post("stream1/generate", body).json()["outputs"][0]["data"] == [4]
    # A model with a single response streams one response.
    once = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}
    assert [event["outputs"][0]["data"] for event in events(post("scale/infer_stream", once))] == [[2.0, 4.0]]


@pytest.mark.trap("T63")
def test_infer_of_a_streaming_model_names_the_route_to_use_t63(post: Any) -> None:
    body = {"inputs": [{"name": "n", "datatype": "INT32", "shape": [1], "data": [4]}]}
    response = post("stream3/infer", body)
    assert response.status_code == 501
    text = "model 'stream3' streams its answers: call generate_stream or infer_stream, or ModelStreamInfer over gRPC"
    assert response.json() == {"error": text}


@pytest.mark.trap("T34")
def test_language_model_profile_t34(post: Any) -> None:
    body = {"text_input": "one two stop three", "parameters": {"stop": ["stop"], "temperature": 0.5, "details": True}}
    received = events(post("words/generate_stream", body))
    assert [event["output"] for event in received] == ["one", "two", ""]
    assert [event["details"] for event in received] == [{}, {}, {"finish_reason": "stop_sequence"}]
    flat = events(post("words/generate_stream", {"text_input": "a stop", "stop": ["stop"]}))
    assert flat[-1] == {**head("words"), "finish_reason": "stop_sequence", "output": ""}
    assert [event["output"] for event in events(post("async_words/generate_stream", {"text_input": "x y"}))] == [
        "x",
        "y",
    ]


def test_rows_of_a_batch_end_independently(post: Any) -> None:
    responses: dict[int, list[Any]] = {}

    def call(count: int) -> None:
        responses[count] = [event["i"] for event in events(post("rows/generate_stream", {"n": count}))]

    threads = [threading.Thread(target=call, args=(count,)) for count in (0, 1, 2, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert responses == {count: list(range(count)) for count in (0, 1, 2, 5)}


def test_request_of_several_rows_gets_its_rows(post: Any) -> None:
    body = {"inputs": [{"name": "n", "datatype": "INT32", "shape": [2, 1], "data": [1, 2]}]}
    whole = [event["outputs"][0] for event in events(post("together/infer_stream", body))]
    assert [(output["shape"], output["data"]) for output in whole] == [([2, 1], [1, 2]), ([2, 1], [2, 3])]
    received = events(post("rows/infer_stream", body))
    rows = [(event["parameters"]["row"], event["outputs"][0]["data"]) for event in received]
    assert rows == [(0, [0]), (1, [0]), (1, [1])]


def test_stream_has_a_deadline(post: Any, tap: Any) -> None:
    received = events(post("endless/generate_stream", {"n": 1, "timeout": 100_000}))
    assert received[-1] == {"error": "model 'endless' did not answer within the deadline"}
    assert len(received) > 1
    assert tap.closed.wait(20)


def test_compressed_body_is_accepted(post: Any) -> None:
    body = gzip.compress(b'{"n":4}')
    received = events(post("stream3/generate_stream", body, headers={"content-encoding": "gzip"}))
    assert [event["i"] for event in received] == [4, 5, 6]


@pytest.fixture
def connection(streams: Server) -> Iterator[http.client.HTTPConnection]:
    address = urlsplit(streams.http_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=20)
    yield connection
    connection.close()


def test_connection_is_reusable_after_a_stream(connection: http.client.HTTPConnection) -> None:
    for _ in range(3):
        connection.request("POST", "/v2/models/stream3/generate_stream", body=b'{"n":1}')
        assert connection.getresponse().read().count(b"data: ") == 3


def test_generate_accepts_only_post(connection: http.client.HTTPConnection) -> None:
    for verb in ("generate", "generate_stream", "infer_stream"):
        connection.request("GET", f"/v2/models/stream3/{verb}")
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())) == (405, {"error": "Method Not Allowed"})
