"""Many calls of a model for one request, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from penstock._model.model import Model

__all__ = ["concurrency_of", "run_bounded"]

T = TypeVar("T")


def concurrency_of(model: Model[..., Any]) -> int:
    """Number of concurrent calls for one request: two per instance slot, at most the queue's limit."""
    busy = 2 * model.instances * (model.max_concurrency or 1)
    return max(1, min(busy, model.max_queue))


async def run_bounded(calls: Iterable[Callable[[], Awaitable[T]]], most: int) -> list[T]:
    """Runs calls, at most `most` at once. Returns the results in order. The first failure cancels the others."""
    calls = list(calls)
    found: list[Any] = [None] * len(calls)
    waiting = iter(enumerate(calls))

    async def work() -> None:
        for index, call in waiting:
            found[index] = await call()

    if len(calls) == 1:
        return [await calls[0]()]
    tasks = [asyncio.ensure_future(work()) for _ in range(min(most, len(calls)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return found
