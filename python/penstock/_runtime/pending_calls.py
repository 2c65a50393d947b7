"""Waiting for calls of other models on an event loop."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Callable
from typing import TypeVar

from penstock import _core

__all__ = ["wait"]

T = TypeVar("T")


class _Waiting:
    """The pending calls of one event loop."""

    def __init__(self) -> None:
        self.notifier = _core.Notifier()
        self.tickets = itertools.count()
        self.futures: dict[int, asyncio.Future[None]] = {}

    def deliver(self) -> None:
        for ticket in self.notifier.take():
            woken = self.futures.get(ticket)
            if woken is not None and not woken.done():
                woken.set_result(None)


_OF_LOOPS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = weakref.WeakKeyDictionary()


def _waiting_of(loop: asyncio.AbstractEventLoop) -> _Waiting:
    waiting = _OF_LOOPS.get(loop)
    if waiting is None:
        waiting = _OF_LOOPS[loop] = _Waiting()
        loop.add_reader(waiting.notifier.fileno(), waiting.deliver)
    return waiting


async def wait(poll: Callable[[_core.Notifier, int], T | None], patience: Callable[[], float | None]) -> T:
    """Awaits a result of `poll`, which is called at each wake-up; the event loop runs other tasks meanwhile."""
    loop = asyncio.get_running_loop()
    waiting = _waiting_of(loop)
    ticket = next(waiting.tickets)
    try:
        while True:
            woken = waiting.futures[ticket] = loop.create_future()
            if (result := poll(waiting.notifier, ticket)) is not None:
                return result
            if (left := patience()) is None:
                await woken
            else:
                await asyncio.wait([woken], timeout=left)
    finally:
        del waiting.futures[ticket]
