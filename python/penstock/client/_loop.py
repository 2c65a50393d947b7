"""Futures of an event loop, for calls that run on the process's runtime.

The runtime leaves outcomes in a mailbox and makes its descriptor readable. The loop takes all that are
there in one turn: one wake-up for many calls, and no thread of ours ever needs the interpreter.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import _core

if TYPE_CHECKING:
    from penstock._core import Mailbox, Running

__all__ = ["run"]


class _Waiting:
    """The calls that one event loop waits for."""

    def __init__(self) -> None:
        self.mailbox = _core.Mailbox()
        self.futures: dict[int, asyncio.Future[Any]] = {}
        self.pid = os.getpid()

    def deliver(self) -> None:
        for ticket, value, error in self.mailbox.take():
            future = self.futures.pop(ticket, None)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


_OF_LOOPS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = weakref.WeakKeyDictionary()


async def run(start: Callable[[Mailbox], Running]) -> Any:
    """What becomes of the call that `start` begins; given up when the task is cancelled."""
    loop = asyncio.get_running_loop()
    waiting = _OF_LOOPS.get(loop)
    if waiting is None or waiting.pid != os.getpid():
        waiting = _OF_LOOPS[loop] = _Waiting()
        loop.add_reader(waiting.mailbox.fileno(), waiting.deliver)
    future: asyncio.Future[Any] = loop.create_future()
    running = start(waiting.mailbox)
    waiting.futures[running.ticket] = future
    try:
        return await future
    except asyncio.CancelledError:
        running.cancel()
        waiting.futures.pop(running.ticket, None)
        raise
