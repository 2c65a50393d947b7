"""Streaming handlers: kinds of handlers, yielded values and the end of streams."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from penstock import Batching, Context, Final, Server, Tensor, model
from penstock.testing import Client

N = [Tensor("n", np.int32, [1])]
OUT = [Tensor("i", np.int32, [1])]


def events(client: Client, name: str, body: dict[str, Any]) -> list[Any]:
    response = client.post(f"/v2/models/{name}/generate_stream", json.dumps(body))
    assert response.status == 200, response.body
    return [json.loads(event.removeprefix("data: ")) for event in response.body.decode().split("\n\n")[:-1]]


def test_streaming_class_is_closed() -> None:
    closed: list[str] = []

    @model(inputs=N, outputs=OUT)
    class Counter:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, n: Any) -> Iterator[Any]:
            self.calls += 1
            for i in range(int(n[0])):
                yield [i + 10 * self.calls]

        def close(self) -> None:
            closed.append("closed")

    assert Counter.streams
    with Client(Counter) as client:
        assert [event["i"] for event in events(client, "Counter", {"n": 2})] == [10, 11]
        assert [event["i"] for event in events(client, "Counter", {"n": 1})] == [20]
    assert closed == ["closed"]


def test_async_generator_stays_on_its_loop_and_is_closed() -> None:
    import asyncio

    loops: list[Any] = []
    ended = threading.Event()

    @model
    async def count(n: int) -> AsyncIterator[int]:
        loops.append(asyncio.get_running_loop())
        try:
            for i in range(n):
                await asyncio.sleep(0)
                yield i
        finally:
            await asyncio.sleep(0)
            ended.set()

    with Client(count) as client:
        assert [event["output"] for event in events(client, "count", {"n": 3})] == [0, 1, 2]
        assert ended.is_set()
        events(client, "count", {"n": 1})
    assert loops[0] is loops[1]
    assert loops[0].is_closed()


def test_function_returning_an_iterator_streams_if_declared() -> None:
    @model(streams=True)
    def letters(text: str) -> Iterator[str]:
        return iter(text)

    with Client(letters) as client:
        assert [event["output"] for event in events(client, "letters", {"text": "ab"})] == ["a", "b"]


def test_non_iterator_result_is_a_handler_error() -> None:
    @model(inputs=N, outputs=OUT, streams=True)
    def wrong(n: Any) -> Any:
        return n

    with Client(wrong) as client:
        response = client.post("/v2/models/wrong/generate_stream", '{"n":1}')
    assert response.status == 500
    text = "model 'wrong' returned a ndarray, it streams and must return a generator or another iterator"
    assert response.json() == {"error": text}


def test_set_parameter_applies_to_one_chunk() -> None:
    @model(inputs=N, outputs=OUT)
    def step_parameters(n: Any, ctx: Context) -> Iterator[Any]:
        ctx.set_parameter("step", 1)
        yield n
        yield n
        ctx.set_parameter("step", 3)
        yield Final(n)

    with Client(step_parameters) as client:
        assert [event.get("step") for event in events(client, "step_parameters", {"n": 1})] == [1, None, 3]


def test_generator_stops_after_the_final_chunk() -> None:
    resumed = threading.Event()

    @model(inputs=N, outputs=OUT)
    def finished(n: Any) -> Iterator[Any]:
        yield n
        yield Final()
        resumed.set()
        yield n

    with Client(finished) as client:
        assert len(events(client, "finished", {"n": 1})) == 1
        assert not resumed.is_set()
    assert repr(Final()) == "Final()"
    assert repr(Final([1])) == "Final([1])"


@pytest.mark.parametrize(
    ("chunk", "text"),
    [
        ([np.zeros(1, np.int32)] * 2, "model 'rows' yielded a list of 2 pieces for a batch of 1 rows"),
        ([np.zeros(2, np.int32)], "model 'rows' returned output 'i' with shape [1, 2], declared [-1, 1]"),
        (np.zeros((2, 1), np.int32), "model 'rows' returned output 'i' with 2 rows for a batch of 1"),
        (["x"], "model 'rows' returned a str for output 'i', declared INT32 (int32)"),
    ],
)
def test_chunks_of_a_batch_are_validated(chunk: Any, text: str) -> None:
    @model(inputs=N, outputs=OUT, batching=Batching(max_size=4))
    def rows(n: Any) -> Iterator[Any]:
        yield n
        yield chunk

    with Client(rows) as client:
        first, error = events(client, "rows", {"n": 5})
    assert (first["i"], error) == (5, {"error": text})


def test_scalar_chunk_is_a_row_of_one_element() -> None:
    @model(inputs=[Tensor("text", str, [1])], outputs=[Tensor("word", str, [1])], batching=Batching(max_size=4))
    def words(text: Any) -> Iterator[Any]:
        yield ["a"] * len(text)
        yield [Final("b")] * len(text)

    with Client(words) as client:
        assert [event["word"] for event in events(client, "words", {"text": "x"})] == ["a", "b"]


def test_error_during_close_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    @model(inputs=N, outputs=OUT)
    def failing_close(n: Any) -> Iterator[Any]:
        try:
            yield Final(n)
            yield n
        finally:
            raise RuntimeError("while closing")

    with Client(failing_close) as client:
        assert [event["i"] for event in events(client, "failing_close", {"n": 1})] == [1]
        assert [event["i"] for event in events(client, "failing_close", {"n": 2})] == [2]
    assert "while closing" in caplog.text


def test_streams_end_when_the_server_stops() -> None:
    import requests

    started = threading.Event()
    closed = threading.Event()

    @model(inputs=N, outputs=OUT)
    def endless(n: Any) -> Iterator[Any]:
        try:
            while True:
                started.set()
                yield n
                threading.Event().wait(0.01)
        finally:
            closed.set()

    server = Server(endless, http="127.0.0.1:0", grpc=None)
    server.start()
    url = f"{server.http_url}/v2/models/endless/generate_stream"
    with requests.post(url, json={"n": 1}, stream=True, timeout=20) as response:
        lines = response.iter_lines()
        assert next(lines)
        cut = server.stop(0.2)
    assert cut == ["endless (version 1): 1 requests"]
    assert closed.wait(20)


def test_silent_stream_outlives_the_idle_timeout() -> None:
    import requests

    @model(inputs=N, outputs=OUT)
    def pausing(n: Any) -> Iterator[Any]:
        yield n
        threading.Event().wait(1.2)
        yield n

    with Server(pausing, http="127.0.0.1:0", grpc=None, idle_timeout=0.3, body_timeout=0.3) as server:
        url = f"{server.http_url}/v2/models/pausing/generate_stream"
        assert requests.post(url, json={"n": 1}, timeout=20).text.count("data: ") == 2
