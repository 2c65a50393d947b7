"""What the run serves: a model of each kind. Each answer tells what was asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock import Batching, Context, Processes, Sequences, Tensor, Threads, model

ROWS = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
FIXED = {"inputs": [Tensor("x", np.float32, [8])], "outputs": [Tensor("y", np.float32, [8])]}
OWN, OWN_ROWS = 2, 4
"""The processes of `own`, and the rows that one of them may have with it when it is killed."""
SLOW_SECONDS = 0.02
"""What a call of `slow` takes: its capacity is the inverse."""


@model(**ROWS, instances=Threads(2))
def plain(x: Any) -> Any:
    """Raises where the first number is negative."""
    if x.size and x[0] < 0:
        raise RuntimeError("as asked")
    return x * 2 + 1


@model(**FIXED, batching=Batching(max_size=16))
def batched(x: Any) -> Any:
    return x * 3 + x.sum(axis=1, keepdims=True)


@model(**FIXED, batching=Batching(max_size=OWN_ROWS), instances=Processes(OWN))
def own(x: Any) -> Any:
    """Its processes are killed again and again."""
    time.sleep(0.01)
    return x * 5 - 3


@model(**ROWS)
async def waits(x: Any) -> Any:
    await asyncio.sleep(0.003)
    return x + 7


@model(inputs=[Tensor("n", np.int64, [2])], outputs=[Tensor("i", np.int64, [1])], instances=Threads(4))
def counts(n: Any) -> Iterator[Any]:
    """From its first number on, as many as the second; raises after two where that is negative."""
    start, count = n.tolist()
    for index in range(abs(count)):
        if count < 0 and index == 2:
            raise RuntimeError("as asked")
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
