"""1.11: every kind of callable, coupled and decoupled."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from bound import bound, rows

from penstock import HandlerError
from penstock.compat.pytriton.decorators import batch
from penstock.testing import Client


def plain(requests: list[Any]) -> list[dict[str, Any]]:
    return [{"y": request["x"] * 2} for request in requests]


async def awaited(requests: list[Any]) -> list[dict[str, Any]]:
    return plain(requests)


def generator(requests: list[Any]) -> Iterator[list[dict[str, Any]]]:
    yield plain(requests)


async def async_generator(requests: list[Any]) -> AsyncIterator[list[dict[str, Any]]]:
    yield plain(requests)


@batch
def batched(x: Any) -> dict[str, Any]:
    return {"y": x * 2}


@batch
async def batched_async(x: Any) -> list[Any]:
    return [x * 2]


@batch
def batched_generator(x: Any) -> Iterator[dict[str, Any]]:
    yield {"y": x * 2}


class Object:
    def __call__(self, requests: list[Any]) -> list[dict[str, Any]]:
        return plain(requests)

    async def method(self, requests: list[Any]) -> list[dict[str, Any]]:
        return plain(requests)

    @batch
    def batched(self, x: Any) -> tuple[Any]:
        return (x * 2,)


class BatchedObject:
    @batch
    def __call__(self, x: Any) -> tuple[Any]:
        return (x * 2,)


KINDS: dict[str, Callable[..., Any]] = {
    "def": plain,
    "async def": awaited,
    "generator": generator,
    "async generator": async_generator,
    "lambda": lambda requests: [{"y": request["x"] * 2} for request in requests],
    "lambda of an async def": lambda requests: awaited(list(requests)),
    "partial": functools.partial(plain),
    "partial of an async def": functools.partial(awaited),
    "object": Object(),
    "bound method": Object().method,
    "batch": batched,
    "batch of an async def": batched_async,
    "batch of a generator": batched_generator,
    "batch of a method": Object().batched,
    "batch of __call__": BatchedObject(),
}


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_callable_answers(kind: str, *, decoupled: bool) -> None:
    with bound(KINDS[kind], decoupled=decoupled) as client:
        if not decoupled:
            assert client.infer("m", {"x": rows(1, 2)})["y"].tolist() == [[2], [4]]
        assert streamed(client, 3) == [[6.0]]


def test_a_coupled_generator_that_yields_twice_is_told_so() -> None:
    def twice(requests: list[Any]) -> Iterator[Any]:
        yield plain(requests)
        yield plain(requests)

    with bound(twice) as client, pytest.raises(HandlerError, match=r"yielded more than once.*decoupled=True"):
        client.infer("m", {"x": rows(1)})


def test_a_decoupled_generator_answers_as_often_as_it_yields() -> None:
    def counting(requests: list[Any]) -> Iterator[Any]:
        for factor in range(int(requests[0]["x"][0, 0])):
            yield [{"y": request["x"] * factor} for request in requests]

    with bound(counting, decoupled=True) as client:
        assert streamed(client, 3) == [[0.0], [3.0], [6.0]]
        assert streamed(client, 0) == []


def streamed(client: Client, value: float) -> list[Any]:
    """Every answer to a request of one row, as a list of its outputs."""
    answered = client.post("/v2/models/m/generate_stream", json.dumps({"x": [value]}))
    assert answered.status == 200
    events = [json.loads(line[6:]) for line in answered.body.decode().splitlines() if line.startswith("data: ")]
    return [event["y"] if isinstance(event["y"], list) else [event["y"]] for event in events]
