"""1.11: every kind of callable, coupled and decoupled."""

from __future__ import annotations

import asyncio
import functools
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from bound import X, Y, bound, rows, stream_outputs, unexpected

from penstock import HandlerError, Server
from penstock.compat.pytriton._bind import bind
from penstock.compat.pytriton._model.binding import Binding
from penstock.compat.pytriton.decorators import batch
from penstock.compat.pytriton.model_config import ModelConfig
from waiting import at_once


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
def test_all_kinds_of_callables_are_served(kind: str, *, decoupled: bool) -> None:
    with bound(KINDS[kind], decoupled=decoupled) as client:
        if not decoupled:
            assert client.infer("m", {"x": rows(1, 2)})["y"].tolist() == [[2], [4]]
        assert stream_outputs(client, 3) == [[6.0]]


def test_coupled_generator_may_yield_only_once() -> None:
    def twice(requests: list[Any]) -> Iterator[Any]:
        yield plain(requests)
        yield plain(requests)

    with bound(twice) as client, pytest.raises(HandlerError, match=r"yielded more than once.*decoupled=True"):
        client.infer("m", {"x": rows(1)})


def test_decoupled_generator_sends_a_response_for_each_yield() -> None:
    def counting(requests: list[Any]) -> Iterator[Any]:
        for factor in range(int(requests[0]["x"][0, 0])):
            yield [{"y": request["x"] * factor} for request in requests]

    with bound(counting, decoupled=True) as client:
        assert stream_outputs(client, 3) == [[0.0], [3.0], [6.0]]
        assert stream_outputs(client, 0) == []


@pytest.mark.parametrize("decoupled", [False, True])
def test_async_calls_of_an_instance_run_concurrently(*, decoupled: bool) -> None:
    entered, release = threading.Semaphore(0), threading.Event()

    async def infer(requests: list[Any]) -> list[dict[str, Any]]:
        entered.release()
        while not release.is_set():
            await asyncio.sleep(0.002)
        return plain(requests)

    with bound(infer, decoupled=decoupled, max_batch_size=1) as client:
        futures = at_once([lambda: stream_outputs(client, 1)] * 3)
        for _ in range(3):
            assert entered.acquire(timeout=20)
        release.set()
        assert [future.result() for future in futures] == [[[2.0]]] * 3


def test_generators_of_an_instance_are_interleaved() -> None:
    started, last = threading.Event(), threading.Event()

    def infer(requests: list[Any]) -> Iterator[Any]:
        if requests[0]["x"][0, 0] > 0:
            last.set()
        while not last.is_set():
            started.set()
            yield plain(requests)
        yield plain(requests)

    with bound(infer, decoupled=True, max_batch_size=1) as client:
        (first,) = at_once([lambda: stream_outputs(client, 0)])
        assert started.wait(20)
        assert stream_outputs(client, 1) == [[2.0]]
        assert first.result(timeout=20)[-1] == [0.0]


def test_disconnect_closes_the_generator() -> None:
    closed = threading.Event()

    def infer(requests: list[Any]) -> Iterator[Any]:
        try:
            while True:
                yield plain(requests)
        finally:
            closed.set()

    binding = Binding.of("m", infer, [X], [Y], 1, ModelConfig(decoupled=True))
    with Server(bind(binding, unexpected), http="127.0.0.1:0", grpc=None) as server:
        host, port = server.http_url.removeprefix("http://").split(":")
        body = b'{"x": [1]}'
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            head = (
                f"POST /v2/models/m/generate_stream HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            connection.sendall(head.encode() + body)
            assert connection.recv(1024)
        assert closed.wait(20)
