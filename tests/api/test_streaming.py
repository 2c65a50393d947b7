"""Handlers that yield: what they may be, what they may yield, and how they end."""

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
    answer = client.post(f"/v2/models/{name}/generate_stream", json.dumps(body))
    assert answer.status == 200, answer.body
    return [json.loads(event.removeprefix("data: ")) for event in answer.body.decode().split("\n\n")[:-1]]


def test_a_class_streams_and_is_closed() -> None:
    seen: list[str] = []

    @model(inputs=N, outputs=OUT)
    class Counter:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, n: Any) -> Iterator[Any]:
            self.calls += 1
            for i in range(int(n[0])):
                yield [i + 10 * self.calls]

        def close(self) -> None:
            seen.append("closed")

    assert Counter.streams
    with Client(Counter) as client:
        assert [event["i"] for event in events(client, "Counter", {"n": 2})] == [10, 11]
        assert [event["i"] for event in events(client, "Counter", {"n": 1})] == [20]
    assert seen == ["closed"]


def test_an_async_generator_keeps_its_loop_and_is_closed() -> None:
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


def test_a_function_that_returns_an_iterator_streams_if_it_says_so() -> None:
    @model(streams=True)
    def letters(text: str) -> Iterator[str]:
        return iter(text)

    with Client(letters) as client:
        assert [event["output"] for event in events(client, "letters", {"text": "ab"})] == ["a", "b"]


def test_what_is_no_iterator_is_the_models_fault() -> None:
    @model(inputs=N, outputs=OUT, streams=True)
    def wrong(n: Any) -> Any:
        return n

    with Client(wrong) as client:
        answer = client.post("/v2/models/wrong/generate_stream", '{"n":1}')
    assert answer.status == 500
    text = "model 'wrong' returned a ndarray, it streams and must return a generator or another iterator"
    assert answer.json() == {"error": text}


def test_parameters_go_with_one_piece() -> None:
    @model(inputs=N, outputs=OUT)
    def told(n: Any, ctx: Context) -> Iterator[Any]:
        ctx.set_parameter("step", 1)
        yield n
        yield n
        ctx.set_parameter("step", 3)
        yield Final(n)

    with Client(told) as client:
        assert [event.get("step") for event in events(client, "told", {"n": 1})] == [1, None, 3]


def test_nothing_comes_after_the_final_piece() -> None:
    went_on = threading.Event()

    @model(inputs=N, outputs=OUT)
    def over(n: Any) -> Iterator[Any]:
        yield n
        yield Final()
        went_on.set()
        yield n

    with Client(over) as client:
        assert len(events(client, "over", {"n": 1})) == 1
        assert not went_on.is_set()
    assert repr(Final()) == "Final()"
    assert repr(Final([1])) == "Final([1])"


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        ([np.zeros(1, np.int32)] * 2, "model 'rows' yielded a list of 2 pieces for a batch of 1 rows"),
        ([np.zeros(2, np.int32)], "model 'rows' returned output 'i' with shape [1, 2], declared [-1, 1]"),
        (np.zeros((2, 1), np.int32), "model 'rows' returned output 'i' with 2 rows for a batch of 1"),
        (["x"], "model 'rows' returned a str for output 'i', declared INT32 (int32)"),
    ],
)
def test_pieces_of_a_batch_are_checked(piece: Any, text: str) -> None:
    @model(inputs=N, outputs=OUT, batching=Batching(max_size=4))
    def rows(n: Any) -> Iterator[Any]:
        yield n
        yield piece

    with Client(rows) as client:
        first, error = events(client, "rows", {"n": 5})
    assert (first["i"], error) == (5, {"error": text})


def test_a_bare_value_is_a_row_of_one_element() -> None:
    @model(inputs=[Tensor("text", str, [1])], outputs=[Tensor("word", str, [1])], batching=Batching(max_size=4))
    def words(text: Any) -> Iterator[Any]:
        yield ["a"] * len(text)
        yield [Final("b")] * len(text)

    with Client(words) as client:
        assert [event["word"] for event in events(client, "words", {"text": "x"})] == ["a", "b"]


def test_an_error_while_it_is_closed_goes_to_the_log_only(caplog: pytest.LogCaptureFixture) -> None:
    @model(inputs=N, outputs=OUT)
    def untidy(n: Any) -> Iterator[Any]:
        try:
            yield Final(n)
            yield n
        finally:
            raise RuntimeError("while closing")

    with Client(untidy) as client:
        assert [event["i"] for event in events(client, "untidy", {"n": 1})] == [1]
        assert [event["i"] for event in events(client, "untidy", {"n": 2})] == [2]
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
    with requests.post(url, json={"n": 1}, stream=True, timeout=20) as answer:
        lines = answer.iter_lines()
        assert next(lines)
        cut = server.stop(0.2)
    assert cut == ["endless (version 1): 1 requests"]
    assert closed.wait(20)


def test_a_stream_may_be_silent_for_longer_than_a_connection_may_be_idle() -> None:
    import requests

    @model(inputs=N, outputs=OUT)
    def thinking(n: Any) -> Iterator[Any]:
        yield n
        threading.Event().wait(1.2)
        yield n

    with Server(thinking, http="127.0.0.1:0", grpc=None, idle_timeout=0.3, body_timeout=0.3) as server:
        url = f"{server.http_url}/v2/models/thinking/generate_stream"
        assert requests.post(url, json={"n": 1}, timeout=20).text.count("data: ") == 2
