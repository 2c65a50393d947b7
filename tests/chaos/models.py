"""Models of the run, one of each kind. Each response identifies its request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock import Batching, Context, Processes, Sequences, Tensor, Threads, model

ROWS = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
FIXED = {"inputs": [Tensor("x", np.float32, [8])], "outputs": [Tensor("y", np.float32, [8])]}
POOL_PROCESSES, POOL_ROWS = 2, 4
"""Processes of `pool`, and the most rows in a batch, which a kill may lose."""
SLOW_SECONDS = 0.02
"""Duration of a call of `slow`; its capacity is the inverse."""


@model(**ROWS, instances=Threads(2))
def plain(x: Any) -> Any:
    """Raises if the first number is negative."""
    if x.size and x[0] < 0:
        raise RuntimeError("as requested")
    return x * 2 + 1


@model(**FIXED, batching=Batching(max_size=16))
def batched(x: Any) -> Any:
    return x * 3 + x.sum(axis=1, keepdims=True)


@model(**FIXED, batching=Batching(max_size=POOL_ROWS), instances=Processes(POOL_PROCESSES))
def pool(x: Any) -> Any:
    """Runs in processes that are killed repeatedly."""
    time.sleep(0.01)
    return x * 5 - 3


@model(**ROWS)
async def sleeping(x: Any) -> Any:
    await asyncio.sleep(0.003)
    return x + 7


@model(inputs=[Tensor("n", np.int64, [2])], outputs=[Tensor("i", np.int64, [1])], instances=Threads(4))
def counts(n: Any) -> Iterator[Any]:
    """Counts up from the first number, as often as the second; if that is negative, raises after two chunks."""
    start, count = n.tolist()
    for index in range(abs(count)):
        if count < 0 and index == 2:
            raise RuntimeError("as requested")
        yield np.array([start + index], np.int64)
        time.sleep(0.0005)


@model(
    inputs=[Tensor("x", np.float32, [1])],
    outputs=[Tensor("total", np.float32, [1])],
    batching=Batching(max_size=8),
    sequences=Sequences(idle_timeout=20.0, max_active=256),
)
def sums(x: Any, ctx: Context) -> Any:
    totals = []
    for row, request in zip(x, ctx.requests, strict=True):
        assert request.sequence is not None
        state = request.sequence.state
        state["total"] = state.get("total", np.float32(0)) + row[0]
        totals.append([state["total"]])
    return np.array(totals, np.float32)


@model(**FIXED, max_queue=8)
def slow(x: Any) -> Any:
    time.sleep(SLOW_SECONDS)
    return x - 5
