"""The fixture models of the streaming cases."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np

from penstock import Batching, Context, Final, NotFound, Tensor, model

ONE = [Tensor("n", np.int32, [1])]
CHUNK = [Tensor("i", np.int32, [1])]


class Tap:
    """Counts the chunks of an endless generator, and records its end."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.yielded = 0
        self.closed = threading.Event()
        self.cancelled = threading.Event()
        self.go_on = threading.Semaphore(0)


TAP = Tap()


@model(inputs=ONE, outputs=CHUNK)
def stream3(n: Any) -> Any:
    for i in range(3):
        yield n + i


@model(inputs=ONE, outputs=CHUNK)
def stream0(n: Any) -> Any:
    yield from ()


@model(inputs=ONE, outputs=CHUNK)
def stream1(n: Any) -> Any:
    yield Final(n)


@model(inputs=ONE, outputs=CHUNK)
def stream_err(n: Any) -> Any:
    yield n
    yield n + 1
    raise NotFound("the third chunk is missing")


@model(inputs=ONE, outputs=CHUNK)
def stream_bad(n: Any) -> Any:
    """Yields a second chunk with a wrong shape."""
    yield n
    yield np.zeros(2, np.int32)


@model(inputs=ONE, outputs=CHUNK)
def stream_no(n: Any) -> Any:
    """Fails before its first chunk."""
    if n[0] >= 0:
        raise NotFound("nothing here")
    yield n


@model(inputs=ONE, outputs=CHUNK)
def endless(n: Any, ctx: Context) -> Any:
    try:
        while True:
            TAP.yielded += 1
            yield n
            if n[0] > 0:
                time.sleep(0.005)
    finally:
        if ctx.cancelled:
            TAP.cancelled.set()
        TAP.closed.set()


@model(inputs=ONE, outputs=CHUNK)
def stepped(n: Any) -> Any:
    """Yields one chunk per release by the test."""
    for i in range(int(n[0])):
        assert TAP.go_on.acquire(timeout=20)
        yield np.array([i], np.int32)


@model(inputs=ONE, outputs=CHUNK, batching=Batching(max_size=8, max_delay=0.1))
def rows(n: Any) -> Any:
    """Row r gets chunks 0 to n[r] - 1; rows end independently."""
    remaining = n[:, 0].copy()
    for i in range(int(remaining.max(initial=0)) + 1):
        yield [None if n < 0 else Final() if n == 0 else np.array([i], np.int32) for n in remaining - i]


@model(inputs=ONE, outputs=CHUNK, batching=Batching(max_size=8, max_delay=0.1))
def together(n: Any) -> Any:
    """Two chunks for all rows."""
    yield n
    yield n + 1


@model
def words(text_input: str, ctx: Context) -> Iterator[str]:
    """Repeats its text, word by word, up to a stop word."""
    stops = ctx.parameters.get("stop", [])
    for word in text_input.split():
        if word in stops:
            ctx.set_parameter("finish_reason", "stop_sequence")
            yield Final("")
            return
        yield word


@model
async def async_words(text_input: str) -> AsyncIterator[str]:
    for word in text_input.split():
        yield word


@model
def complete(text_input: str, ctx: Context) -> str:
    """A single response, with the request's parameters."""
    ctx.set_parameter("finish_reason", "length")
    ctx.set_parameter(
        "request_parameters", ",".join(f"{name}={value!r}" for name, value in sorted(ctx.parameters.items()))
    )
    return text_input.upper()


@model(inputs=[Tensor("x", bytes, [-1])], outputs=[Tensor("y", bytes, [-1])])
def echo(x: Any) -> Any:
    return x


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])], batching=Batching(max_size=8))
def scale(x: Any) -> Any:
    return x * 2


MODELS = [
    stream3,
    stream0,
    stream1,
    stream_err,
    stream_bad,
    stream_no,
    endless,
    stepped,
    rows,
    together,
    words,
    async_words,
    complete,
    echo,
    scale,
]
