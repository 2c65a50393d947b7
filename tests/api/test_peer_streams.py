"""Handlers that read what a model of the same server streams: `ctx.models[...].stream(...)`."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from penstock import (
    Batching,
    Context,
    Final,
    HandlerError,
    InvalidInput,
    Overloaded,
    Sequences,
    Server,
    Tensor,
    Timeout,
    model,
)
from penstock.testing import Client
from repositories import Caller
from waiting import PATIENCE, Gate, until

X: Any = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
ONE = np.ones(1, np.float32)


@model(name="count", **X)
def count(x):
    for number in range(int(x[0])):
        yield np.array([number], np.float32)


@model(name="count", **X)
async def count_on_a_loop(x):
    for number in range(int(x[0])):
        await asyncio.sleep(0)
        yield np.array([number], np.float32)


def plain(read: Callable[[Any], Any], **options: Any) -> Any:
    @model(name="outer", **{**X, **options})
    def outer(x, ctx: Context):
        return np.array([read(ctx.models["count"].stream(x))], np.float32)

    return outer


def total(pieces: Any) -> float:
    return float(sum(piece[0] for piece in pieces))


@model(name="outer", **X)
async def sums_on_a_loop(x, ctx: Context):
    found = [float(piece[0]) async for piece in ctx.models["count"].stream(x=x)]
    return np.array([sum(found)], np.float32)


@pytest.mark.parametrize("called", [count, count_on_a_loop], ids=["plain", "async"])
@pytest.mark.parametrize("calling", [plain(total), sums_on_a_loop], ids=["from_a_thread", "from_a_loop"])
# Of more pieces than a caller may have waiting, too.
@pytest.mark.parametrize("pieces", [0, 1, 3, 1000])
def test_pieces_come_in_order_and_end(called: Any, calling: Any, pieces: int) -> None:
    with Client(called, calling) as client:
        answer = client.infer("outer", {"x": ONE * pieces})["y"]
        metrics = client.get("/metrics").body.decode()
    assert answer.tolist() == [sum(range(pieces))]
    assert 'penstock_requests_total{model="count",version="1",protocol="inprocess",outcome="ok"} 1' in metrics
    assert 'penstock_in_flight{model="count",version="1"} 0' in metrics


def test_a_handler_that_streams_hands_pieces_on_as_they_come() -> None:
    gates = [Gate(), Gate()]

    @model(name="count", **X)
    def held(x):
        for number, gate in enumerate(gates):
            gate.enter()
            yield np.array([number], np.float32)

    @model(name="outer", **X)
    async def doubles(x, ctx: Context):
        async for piece in ctx.models["count"].stream(x):
            yield piece * 2

    gates[0].open()
    with (
        Server(held, doubles, http="127.0.0.1:0", grpc=None) as server,
        urllib.request.urlopen(f"{server.http_url}/v2/models/outer/generate_stream", b'{"x": 1}') as answer,
    ):
        assert json.loads(answer.readline().removeprefix(b"data: "))["y"] == 0.0
        gates[1].open()
        rest = [json.loads(line.removeprefix(b"data: "))["y"] for line in answer if line.strip()]
    assert rest == [2.0]


def test_a_final_that_brings_nothing_is_no_piece() -> None:
    @model(name="count", **X)
    def ends(x):
        yield x
        yield Final()

    @model(name="other", **X)
    def marks(x):
        yield Final(x)

    seen: list[list[Any]] = []

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        seen.append([[piece.tolist() for piece in ctx.models[name].stream(x)] for name in ("count", "other")])
        return x

    with Client(ends, marks, outer) as client:
        client.infer("outer", {"x": ONE})
    assert seen == [[[[1.0]], [[1.0]]]]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_an_error_comes_after_the_pieces_before_it(kind: str) -> None:
    @model(name="count", **X)
    def fails(x):
        yield x
        raise InvalidInput("no more of these")

    seen: list[Any] = []

    @model(name="outer", **X)
    def reads(x, ctx: Context):
        for piece in ctx.models["count"].stream(x):
            seen.append(piece.tolist())
        return x

    @model(name="outer", **X)
    async def reads_on_a_loop(x, ctx: Context):
        async for piece in ctx.models["count"].stream(x):
            seen.append(piece.tolist())
        return x

    with Client(fails, reads if kind == "plain" else reads_on_a_loop) as client:
        with pytest.raises(InvalidInput, match="no more of these"):
            client.infer("outer", {"x": ONE})
        assert seen == [[1.0]]
        line = 'penstock_requests_total{model="count",version="1",protocol="inprocess",outcome="invalid_input"} 1'
        assert line in client.get("/metrics").body.decode()


def told(handler: Callable[[Any], Any], *models: Any) -> BaseException:
    found: list[BaseException] = []

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        try:
            handler(ctx)
        except BaseException as error:
            found.append(error)
        return x

    with Client(*models, outer) as client:
        client.infer("outer", {"x": ONE})
    return found[0]


def test_what_cannot_be_streamed_is_refused() -> None:
    @model(name="state", sequences=Sequences(), **X)
    def state(x, ctx: Context):
        yield x

    @model(name="busy", **X)
    def busy(x):
        raise Overloaded("come back later")
        yield x

    error = told(lambda ctx: list(ctx.models["state"].stream(ONE)), state)
    assert str(error) == "model 'state' keeps sequences: a client can call it, and no other model"
    error = told(lambda ctx: list(ctx.models["count"].stream(np.ones(2, np.float32))), count)
    assert str(error) == "input 'x' has shape [2], model 'count' expects [1]"
    assert isinstance(told(lambda ctx: list(ctx.models["nobody"].stream(ONE))), LookupError)
    assert isinstance(told(lambda ctx: list(ctx.models["busy"].stream(ONE)), busy), Overloaded)
    error = told(lambda ctx: list(ctx.models["outer"].stream(ONE)))
    assert isinstance(error, HandlerError)
    assert "circle" in str(error)


def test_reading_on_an_event_loop_says_what_to_write() -> None:
    @model(name="outer", **X)
    async def outer(x, ctx: Context):
        for piece in ctx.models["count"].stream(x):
            return piece
        return x

    with Client(count, outer) as client, pytest.raises(HandlerError, match="model 'outer' failed: RuntimeError"):
        client.infer("outer", {"x": ONE})


def test_a_model_that_answers_once_gives_one_piece() -> None:
    @model(name="count", batching=Batching(max_size=4), **X)
    def doubles(x):
        return x * 2

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        (only,) = ctx.models["count"].stream(x[None])
        return only[0]

    with Client(doubles, outer) as client:
        assert client.infer("outer", {"x": ONE})["y"].tolist() == [2.0]


@pytest.mark.parametrize("how", ["close", "break", "return"])
def test_a_reader_that_stops_closes_the_generator(how: str) -> None:
    closed = threading.Event()

    @model(name="count", **X)
    def endless(x):
        try:
            while True:
                yield x
        finally:
            closed.set()

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        pieces = ctx.models["count"].stream(x)
        first = next(pieces)
        if how == "close":
            pieces.close()
            pieces.close()
            assert closed.wait(PATIENCE)
        return first

    @model(name="outer", **X)
    async def breaks(x, ctx: Context):
        async for piece in ctx.models["count"].stream(x):
            first = piece
            break
        return first

    with Client(endless, breaks if how == "break" else outer) as client:
        assert client.infer("outer", {"x": ONE})["y"].tolist() == [1.0]
        assert closed.wait(PATIENCE)
        until(lambda: 'penstock_in_flight{model="count",version="1"} 0' in client.get("/metrics").body.decode())


def test_a_deadline_ends_the_stream() -> None:
    begun = Gate()

    @model(name="count", **X)
    async def waits(x):
        yield x
        await asyncio.to_thread(begun.enter)
        yield x

    found: list[BaseException] = []

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        try:
            for _ in ctx.models["count"].stream(x):
                pass
        except Timeout as error:
            found.append(error)
        return x

    with Server(waits, outer, http="127.0.0.1:0", grpc=None) as server:
        document = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}],
                    "parameters": {"timeout": 200_000}}  # fmt: skip
        # The handler may still answer in the instant in which its own caller gives up.
        Caller(server.http_url)("POST", "/v2/models/outer/infer", document)
        until(lambda: bool(found))
        begun.open()
    assert str(found[0]) == "model 'count' did not answer within the deadline"


def test_parameters_go_with_the_call() -> None:
    @model(name="count", **X)
    def tells(x, ctx: Context):
        yield x * ctx.parameters["times"]

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        return next(ctx.models["count"].with_parameters(times=5).stream(x))

    with Client(tells, outer) as client:
        assert client.infer("outer", {"x": ONE})["y"].tolist() == [5.0]
