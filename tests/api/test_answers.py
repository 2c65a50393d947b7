"""`Answers`: one response per request of a batch, and outputs whose shapes are not checked."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

from http_by_hand import infer, metric_at
from penstock import Answers, Batching, Context, HandlerError, InvalidInput, Processes, Server, Tensor, model
from penstock.testing import Client
from waiting import Gate, at_once, until

VARIABLE = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [-1])]}


def each(x: Any, ctx: Context) -> Iterator[Any]:
    """The rows of each request."""
    ends = list(itertools.accumulate(one.rows for one in ctx.requests))
    return (x[end - one.rows : end] for end, one in zip(ends, ctx.requests, strict=True))


def widths(x: Any, ctx: Context) -> Answers:
    return Answers(width(part) for part in each(x, ctx))


def width(part: Any) -> Any:
    size = int(part[0, 0])
    if size < 0:
        return InvalidInput(f"no {size}")
    # Of the wrong type for 9.
    return {"y": np.full((len(part), size), size, np.float64 if size == 9 else np.float32)}


async def widths_async(x: Any, ctx: Context) -> Answers:
    return widths(x, ctx)


def infer_in_one_batch(handler: Callable[..., Any], rows_of_requests: list[list[float]]) -> list[Any]:
    """Responses to requests of which the first runs alone and the others share one batch."""
    gate, sizes = Gate(), list[int]()

    def held(x: Any, ctx: Context) -> Any:
        sizes.append(len(ctx.requests))
        if len(sizes) == 1:
            gate.enter()
        return handler(x, ctx)

    async def held_async(x: Any, ctx: Context) -> Any:
        return await held(x, ctx)

    target = held_async if handler is widths_async else held
    with Server(
        model(target, name="m", batching=Batching(max_size=64), **VARIABLE), http="127.0.0.1:0", grpc=None
    ) as server:
        url = server.http_url
        futures = []
        for index, values in enumerate(rows_of_requests):
            inputs = {"x": np.array(values, np.float32).reshape(-1, 1)}
            futures += at_once([lambda inputs=inputs: infer(url, "m", inputs)])
            if not index:
                gate.await_entered()
            until(lambda index=index: metric_at(url, "penstock_queue_depth") == index)
        gate.open()
        responses = [future.result() for future in futures]
    assert sizes == [1, len(rows_of_requests) - 1]
    return responses


@pytest.mark.parametrize("handler", [widths, widths_async])
def test_each_request_gets_its_own_shape_or_error(handler: Callable[..., Any]) -> None:
    responses = infer_in_one_batch(handler, [[1.0], [2.0], [3.0, 0.0], [4.0], [-4.0], [9.0], [5.0]])
    assert [response.status for response in responses] == [200, 200, 200, 200, 400, 500, 200]
    shapes = [response.array("y").shape for response in responses if response.status == 200]
    assert shapes == [(1, 1), (1, 2), (2, 3), (1, 4), (1, 5)]
    assert responses[6].array("y").tolist() == [[5.0] * 5]
    assert responses[4].error() == "no -4"
    assert "output 'y'" in responses[5].error()
    assert "float64" in responses[5].error()


def test_answer_count_must_match_request_count() -> None:
    two = model(lambda x, ctx: Answers([x, x]), name="m", batching=Batching(max_size=4), **VARIABLE)
    with (
        Client(two) as client,
        pytest.raises(HandlerError, match=r"^model 'm' returned answers to 2 requests, the batch has 1$"),
    ):
        client.infer("m", {"x": np.ones((1, 1), np.float32)})


def test_answer_rows_are_checked_per_request() -> None:
    wrong = model(lambda x, ctx: Answers([np.ones((3, 1), np.float32)]), name="m", batching=Batching(8), **VARIABLE)
    with (
        Client(wrong) as client,
        pytest.raises(HandlerError, match=r"^model 'm' returned output 'y' with 3 rows for a batch of 2$"),
    ):
        client.infer("m", {"x": np.ones((2, 1), np.float32)})


def test_unbatched_model_may_return_answers() -> None:
    with Client(model(lambda x, ctx: Answers([(x * 2,)]), name="m", **VARIABLE)) as client:
        assert client.infer("m", {"x": np.ones(1, np.float32)})["y"].tolist() == [2.0]


def steps(x: Any, ctx: Context) -> Iterator[Any]:
    for step in (1, 2):
        yield Answers(np.full((len(part), step), step, np.float32) for part in each(x, ctx))
    yield Answers(InvalidInput("enough") for _ in ctx.requests)


async def steps_async(x: Any, ctx: Context) -> AsyncIterator[Any]:
    for chunk in steps(x, ctx):
        yield chunk


@pytest.mark.parametrize("handler", [steps, steps_async])
def test_stream_may_yield_answers(handler: Callable[..., Any]) -> None:
    with Client(model(handler, name="m", batching=Batching(max_size=4), **VARIABLE)) as client:
        stream = client.post("/v2/models/m/generate_stream", '{"x": 1}').body.decode()
    events = [json.loads(line[6:]) for line in stream.splitlines() if line]
    assert [event.get("y") for event in events] == [1.0, [2.0, 2.0], None]
    assert "enough" in events[2]["error"]


def test_processes_may_return_answers() -> None:
    # At the top of a module, so that a process can import them.
    options = {"batching": Batching(max_size=4), "instances": Processes(1), **VARIABLE}
    with Client(model(widths, name="m", **options), model(steps, name="s", **options)) as client:
        assert client.infer("m", {"x": np.full((2, 1), 3, np.float32)})["y"].tolist() == [[3.0] * 3] * 2
        with pytest.raises(InvalidInput, match=r"^no -1$"):
            client.infer("m", {"x": np.full((1, 1), -1, np.float32)})
        stream = client.post("/v2/models/s/generate_stream", '{"x": 1}').body.decode()
    events = [json.loads(line[6:]) for line in stream.splitlines() if line]
    assert [event.get("y") for event in events] == [1.0, [2.0, 2.0], None]
    assert "enough" in events[2]["error"]


@pytest.mark.parametrize(("shape", "rows"), [((2, 5), 2), ((2, 2, 2), 2), ((2,), 2)])
def test_unchecked_shapes_are_sent_unchanged(shape: tuple[int, ...], rows: int) -> None:
    output = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    fixed = {**VARIABLE, "outputs": [Tensor("y", np.float32, [3])], "batching": Batching(max_size=4)}
    inputs = {"x": np.ones((rows, 1), np.float32)}
    with Client(model(lambda x: output, name="m", check_shapes=False, **fixed)) as client:
        for binary in (False, True):
            assert client.infer("m", inputs, binary=binary)["y"].tolist() == output.tolist()
    with Client(model(lambda x: output, name="m", **fixed)) as client, pytest.raises(HandlerError, match="declared"):
        client.infer("m", inputs)


@pytest.mark.parametrize(("shape", "found_rows"), [((3, 1), "3"), ((), "no")])
def test_batch_rows_are_checked_even_with_unchecked_shapes(shape: tuple[int, ...], found_rows: str) -> None:
    wrong = model(
        lambda x: np.ones(shape, np.float32), name="m", batching=Batching(max_size=4), check_shapes=False, **VARIABLE
    )
    with Client(wrong) as client, pytest.raises(HandlerError, match=f"with {found_rows} rows for a batch of 2"):
        client.infer("m", {"x": np.ones((2, 1), np.float32)})


@pytest.mark.parametrize("shape", [(7, 3), (), (0,)])
def test_unchecked_answers_may_have_any_row_count(shape: tuple[int, ...]) -> None:
    unchecked = model(
        lambda x, ctx: Answers([np.ones(shape, np.float32)]),
        name="m",
        batching=Batching(max_size=4, oversize="split"),
        check_shapes=False,
        **VARIABLE,
    )
    with Client(unchecked) as client:
        assert client.infer("m", {"x": np.ones((2, 1), np.float32)})["y"].shape == shape
        if shape == ():
            with pytest.raises(HandlerError, match="came back in different sizes"):
                client.infer("m", {"x": np.ones((6, 1), np.float32)})
