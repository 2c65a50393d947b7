"""Handlers that read the stream of a peer: `ctx.models[...].stream(...)`."""

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
from repositories import RepositoryClient
from waiting import PATIENCE, Gate, until

X: Any = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
ONE = np.ones(1, np.float32)


@model(name="count", **X)
def count(x):
    for number in range(int(x[0])):
        yield np.array([number], np.float32)


@model(name="count", **X)
async def count_async(x):
    for number in range(int(x[0])):
        await asyncio.sleep(0)
        yield np.array([number], np.float32)


def reading_model(read: Callable[[Any], Any], **options: Any) -> Any:
    @model(name="outer", **{**X, **options})
    def outer(x, ctx: Context):
        return np.array([read(ctx.models["count"].stream(x))], np.float32)

    return outer


def sum_chunks(chunks: Any) -> float:
    return float(sum(chunk[0] for chunk in chunks))


@model(name="outer", **X)
async def sum_async(x, ctx: Context):
    values = [float(chunk[0]) async for chunk in ctx.models["count"].stream(x=x)]
    return np.array([sum(values)], np.float32)


@pytest.mark.parametrize("producer", [count, count_async], ids=["plain", "async"])
@pytest.mark.parametrize("consumer", [reading_model(sum_chunks), sum_async], ids=["from_thread", "from_event_loop"])
# 1000 chunks exceed the buffer of a reader.
@pytest.mark.parametrize("chunks", [0, 1, 3, 1000])
def test_chunks_arrive_in_order_and_end(producer: Any, consumer: Any, chunks: int) -> None:
    with Client(producer, consumer) as client:
        response = client.infer("outer", {"x": ONE * chunks})["y"]
        metrics = client.get("/metrics").body.decode()
    assert response.tolist() == [sum(range(chunks))]
    assert 'penstock_requests_total{model="count",version="1",protocol="inprocess",outcome="ok"} 1' in metrics
    assert 'penstock_in_flight{model="count",version="1"} 0' in metrics


def test_streaming_handler_forwards_chunks_immediately() -> None:
    gates = [Gate(), Gate()]

    @model(name="count", **X)
    def held(x):
        for number, gate in enumerate(gates):
            gate.enter()
            yield np.array([number], np.float32)

    @model(name="outer", **X)
    async def doubles(x, ctx: Context):
        async for chunk in ctx.models["count"].stream(x):
            yield chunk * 2

    gates[0].open()
    with (
        Server(held, doubles, http="127.0.0.1:0", grpc=None) as server,
        urllib.request.urlopen(f"{server.http_url}/v2/models/outer/generate_stream", b'{"x": 1}') as response,
    ):
        assert json.loads(response.readline().removeprefix(b"data: "))["y"] == 0.0
        gates[1].open()
        rest = [json.loads(line.removeprefix(b"data: "))["y"] for line in response if line.strip()]
    assert rest == [2.0]


def test_empty_final_is_not_a_chunk() -> None:
    @model(name="count", **X)
    def ends(x):
        yield x
        yield Final()

    @model(name="other", **X)
    def final_only(x):
        yield Final(x)

    received: list[list[Any]] = []

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        received.append([[chunk.tolist() for chunk in ctx.models[name].stream(x)] for name in ("count", "other")])
        return x

    with Client(ends, final_only, outer) as client:
        client.infer("outer", {"x": ONE})
    assert received == [[[[1.0]], [[1.0]]]]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_error_follows_the_chunks_before_it(kind: str) -> None:
    @model(name="count", **X)
    def failing(x):
        yield x
        raise InvalidInput("no more of these")

    received: list[Any] = []

    @model(name="outer", **X)
    def read(x, ctx: Context):
        for chunk in ctx.models["count"].stream(x):
            received.append(chunk.tolist())
        return x

    @model(name="outer", **X)
    async def read_async(x, ctx: Context):
        async for chunk in ctx.models["count"].stream(x):
            received.append(chunk.tolist())
        return x

    with Client(failing, read if kind == "plain" else read_async) as client:
        with pytest.raises(InvalidInput, match="no more of these"):
            client.infer("outer", {"x": ONE})
        assert received == [[1.0]]
        line = 'penstock_requests_total{model="count",version="1",protocol="inprocess",outcome="invalid_input"} 1'
        assert line in client.get("/metrics").body.decode()


def error_in_handler(handler: Callable[[Any], Any], *models: Any) -> BaseException:
    values: list[BaseException] = []

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        try:
            handler(ctx)
        except BaseException as error:
            values.append(error)
        return x

    with Client(*models, outer) as client:
        client.infer("outer", {"x": ONE})
    return values[0]


def test_invalid_stream_calls_are_rejected() -> None:
    @model(name="state", sequences=Sequences(), **X)
    def state(x, ctx: Context):
        yield x

    @model(name="busy", **X)
    def busy(x):
        raise Overloaded("come back later")
        yield x

    error = error_in_handler(lambda ctx: list(ctx.models["state"].stream(ONE)), state)
    assert str(error) == "model 'state' keeps sequences: a client can call it, and no other model"
    error = error_in_handler(lambda ctx: list(ctx.models["count"].stream(np.ones(2, np.float32))), count)
    assert str(error) == "input 'x' has shape [2], model 'count' expects [1]"
    assert isinstance(error_in_handler(lambda ctx: list(ctx.models["missing"].stream(ONE))), LookupError)
    assert isinstance(error_in_handler(lambda ctx: list(ctx.models["busy"].stream(ONE)), busy), Overloaded)
    error = error_in_handler(lambda ctx: list(ctx.models["outer"].stream(ONE)))
    assert isinstance(error, HandlerError)
    assert "circle" in str(error)


def test_sync_iteration_on_an_event_loop_is_an_error() -> None:
    @model(name="outer", **X)
    async def outer(x, ctx: Context):
        for chunk in ctx.models["count"].stream(x):
            return chunk
        return x

    with Client(count, outer) as client, pytest.raises(HandlerError, match="model 'outer' failed: RuntimeError"):
        client.infer("outer", {"x": ONE})


def test_unary_model_yields_one_chunk() -> None:
    @model(name="count", batching=Batching(max_size=4), **X)
    def doubles(x):
        return x * 2

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        (only,) = ctx.models["count"].stream(x[None])
        return only[0]

    with Client(doubles, outer) as client:
        assert client.infer("outer", {"x": ONE})["y"].tolist() == [2.0]


@pytest.mark.parametrize("ending", ["close", "break", "return"])
def test_abandoned_stream_closes_its_generator(ending: str) -> None:
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
        chunks = ctx.models["count"].stream(x)
        first = next(chunks)
        if ending == "close":
            chunks.close()
            chunks.close()
            assert closed.wait(PATIENCE)
        return first

    @model(name="outer", **X)
    async def break_early(x, ctx: Context):
        async for chunk in ctx.models["count"].stream(x):
            first = chunk
            break
        return first

    with Client(endless, break_early if ending == "break" else outer) as client:
        assert client.infer("outer", {"x": ONE})["y"].tolist() == [1.0]
        assert closed.wait(PATIENCE)
        until(lambda: 'penstock_in_flight{model="count",version="1"} 0' in client.get("/metrics").body.decode())


def test_deadline_ends_the_stream() -> None:
    gate = Gate()

    @model(name="count", **X)
    async def wait_for_gate(x):
        yield x
        await asyncio.to_thread(gate.enter)
        yield x

    values: list[BaseException] = []

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        try:
            for _ in ctx.models["count"].stream(x):
                pass
        except Timeout as error:
            values.append(error)
        return x

    with Server(wait_for_gate, outer, http="127.0.0.1:0", grpc=None) as server:
        document = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}],
                    "parameters": {"timeout": 200_000}}  # fmt: skip
        # The response may still arrive at the moment in which the client times out.
        RepositoryClient(server.http_url)("POST", "/v2/models/outer/infer", document)
        until(lambda: bool(values))
        gate.open()
    assert str(values[0]) == "model 'count' did not answer within the deadline"


def test_parameters_are_passed_to_the_peer() -> None:
    @model(name="count", **X)
    def scale(x, ctx: Context):
        yield x * ctx.parameters["times"]

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        return next(ctx.models["count"].with_parameters(times=5).stream(x))

    with Client(scale, outer) as client:
        assert client.infer("outer", {"x": ONE})["y"].tolist() == [5.0]
