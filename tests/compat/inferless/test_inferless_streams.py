"""Streaming responses: I-14 to I-16, I-29."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from inferless_apps import ANY, app_class, live, served, tensor, write_app

STREAMING = ANY + "IS_STREAMING_OUTPUT = True\n"
COUNT = """
def infer(self, inputs, stream_output_handler):
    for n in range(3):
        stream_output_handler.send_streamed_output({"n": n, "text": inputs.get("x", "-")})
    stream_output_handler.finalise_streamed_output()
"""
FORMS = {
    "handler": COUNT,
    "handler async": COUNT.replace("def infer", "async def infer"),
    "never finalised": COUNT.replace("stream_output_handler.finalise_streamed_output()", "pass"),
    "generator": "def infer(self, inputs):\n    for n in range(3): yield {'n': n, 'text': inputs.get('x', '-')}",
    "async generator": "async def infer(self, inputs):\n    for n in range(3):\n"
    "        yield {'n': n, 'text': inputs.get('x', '-')}",
}


def events(body: bytes) -> list[Any]:
    """Returns the objects of a stream's events."""
    parts = body.decode().split("\n\n")
    assert parts.pop() == ""
    assert all(one.startswith("data: ") and "\n" not in one for one in parts)
    return [json.loads(one.removeprefix("data: ")) for one in parts]


def chunk(n: int, text: str = "-") -> dict[str, Any]:
    return {"model_name": "shop", "model_version": "1", "n": n, "text": text}


@pytest.mark.parametrize("form", FORMS)
def test_i15_i29_chunks_are_sent_in_order(tmp_path: Path, form: str) -> None:
    schema = ANY if "generator" in form else STREAMING
    with served(write_app(tmp_path, app_class(FORMS[form]), schema)) as api:
        for _ in range(2):
            response = api.post("infer", {"parameters": {"x": "hi"}})
            assert response.status == 200
            assert response.headers["content-type"] == "text/event-stream"
            assert events(response.body) == [chunk(n, "hi") for n in range(3)]


@pytest.mark.parametrize(
    "body",
    [
        {"parameters": {"x": "hi"}},
        {"inputs": [tensor("x", "BYTES", "hi")]},
        {"parameters": {"x": "hi"}, "id": "7"},
    ],
)
@pytest.mark.parametrize("path", ["infer", "generate_stream", "versions/1/infer", "versions/1/generate_stream"])
def test_i16_all_forms_of_bodies_are_accepted(tmp_path: Path, body: Any, path: str) -> None:
    with served(write_app(tmp_path, app_class(COUNT), STREAMING)) as api:
        chunks = events(api.post(path, body).body)
        known = {"id": body["id"]} if "id" in body else {}
        assert chunks == [{**known, **chunk(n, "hi")} for n in range(3)]


def test_i16_inputs_may_be_members_of_the_body(tmp_path: Path) -> None:
    with served(write_app(tmp_path, app_class(COUNT), STREAMING)) as api:
        assert events(api.post("generate_stream", {"x": "hi"}).body) == [chunk(n, "hi") for n in range(3)]


def test_i16_wrong_types_and_names_of_parameters_are_rejected(tmp_path: Path) -> None:
    with served(write_app(tmp_path, app_class(COUNT), STREAMING)) as api:
        for parameters, problem in (
            ({"x": 3}, "input 'x' has 3, BYTES takes a string"),
            ({"z": 3}, "unexpected input 'z', expected 'x'"),
        ):
            response = api.post("infer", {"parameters": parameters})
            assert (response.status, response.error()) == (400, problem)


def test_i15_error_before_the_first_chunk_sets_the_status(tmp_path: Path) -> None:
    app = app_class("def infer(self, inputs, handler): raise ValueError('dark')")
    with served(write_app(tmp_path, app, STREAMING)) as api:
        response = api.post("infer", {})
        assert (response.status, response.error()) == (500, "infer failed: ValueError: dark")


def test_i15_later_error_is_the_last_event(tmp_path: Path) -> None:
    app = app_class(
        "def infer(self, inputs, handler):\n    handler.send_streamed_output({'n': 1})\n    raise ValueError('dark')"
    )
    with served(write_app(tmp_path, app, STREAMING)) as api:
        for _ in range(2):
            chunks = events(api.post("infer", {}).body)
            assert chunks[0]["n"] == 1
            assert chunks[1:] == [{"error": "infer failed: ValueError: dark"}]


def test_i15_stream_without_chunks_is_empty(tmp_path: Path) -> None:
    with served(write_app(tmp_path, app_class("def infer(self, inputs, handler): pass"), STREAMING)) as api:
        response = api.post("infer", {})
        assert (response.status, response.body) == (200, b"")


def test_lists_in_events_are_flat_and_scalars_are_scalars(tmp_path: Path) -> None:
    app = app_class(
        "def infer(self, inputs, handler): handler.send_streamed_output({'a': [1, 2], 'b': 'ü', 'c': True})"
    )
    with served(write_app(tmp_path, app, STREAMING)) as api:
        response = api.post("infer", {})
        (event,) = events(response.body)
        assert (event["a"], event["b"], event["c"]) == ([1, 2], "ü", True)
        assert "ü".encode() in response.body


SLOW = """
def infer(self, inputs, handler):
    for n in range(4):
        handler.send_streamed_output({"n": n})
        time.sleep(0.25)
"""


@contextmanager
def post(url: str, body: Any) -> Iterator[http.client.HTTPResponse]:
    """Yields a response that is being sent; closes its connection on exit."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    try:
        connection.request("POST", f"{parts.path}", json.dumps(body))
        with connection.getresponse() as response:
            yield response
    finally:
        connection.close()


def test_i15_events_arrive_when_sent(tmp_path: Path) -> None:
    with live(write_app(tmp_path, app_class(SLOW), STREAMING)) as url:
        times = []
        with post(f"{url}/generate_stream", {}) as response:
            while line := response.readline():
                if line.startswith(b"data: "):
                    times.append(time.monotonic())
        assert len(times) == 4
        assert times[-1] - times[0] > 0.5


LEAVING = """
def initialize(self): self.outcome = None
def infer(self, inputs, handler):
    if inputs.get("x") == "report":
        handler.send_streamed_output({"outcome": self.outcome})
        return
    try:
        while True:
            handler.send_streamed_output({"n": 1})
            time.sleep(0.01)
    except BaseException as error:
        self.outcome = type(error).__name__
        raise
"""


def test_i15_disconnect_cancels_the_call(tmp_path: Path) -> None:
    with live(write_app(tmp_path, app_class(LEAVING), STREAMING)) as url:
        with post(f"{url}/generate_stream", {}) as response:
            assert response.readline().startswith(b"data: ")
        with post(f"{url}/generate_stream", {"parameters": {"x": "report"}}) as reply:
            assert events(reply.read())[0]["outcome"] == "Cancelled"


CONFIGURED = """
import inferless
from pydantic import BaseModel, Field

@inferless.request
class Request(BaseModel):
    x: str = Field(default="-")

@inferless.response
class Response(BaseModel):
    n: int = 0

@inferless.config{spelling}
class Config(BaseModel):
    is_streaming_output: bool = True

class InferlessPythonModel:
    def infer(self, request: Request, handler):
        for n in range(2):
            handler.send_streamed_output({{"n": n, "text": request.x}})
"""


@pytest.mark.parametrize("spelling", ["", "()"])
def test_i14_config_class_enables_streaming(tmp_path: Path, spelling: str) -> None:
    with served(write_app(tmp_path, CONFIGURED.format(spelling=spelling), None)) as api:
        response = api.post("generate_stream", {"parameters": {"x": "hi"}})
        assert events(response.body) == [chunk(n, "hi") for n in range(2)]


def test_i24_late_chunk_is_504(tmp_path: Path) -> None:
    app = app_class(
        "def infer(self, inputs, handler):\n    if inputs.get('x'): time.sleep(30)\n"
        "    handler.send_streamed_output({'n': 1})"
    )
    with served(write_app(tmp_path, app, STREAMING), timeout=0.5) as api:
        response = api.post("generate_stream", {"parameters": {"x": "a"}})
        assert (response.status, response.error()) == (504, "infer sent nothing within 0.5s")
