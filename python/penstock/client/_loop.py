"""Futures of an event loop, for calls that run on the process's runtime or that the loop itself carries on.

The runtime leaves outcomes in a mailbox and makes its descriptor readable. The loop takes all that are
there in one turn: one wake-up for many calls, and no thread of ours ever needs the interpreter.

A call that is alone would wake two threads that way for nothing. The loop watches its socket instead, and
takes the answer itself.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import _core

if TYPE_CHECKING:
    from penstock._core import CompletionQueue, PendingCall

__all__ = ["run"]


class _Waiting:
    """The calls that one event loop waits for."""

    def __init__(self) -> None:
        self.mailbox = _core.CompletionQueue()
        self.calls: dict[int, tuple[PendingCall, asyncio.Future[Any]]] = {}
        self.pid = os.getpid()

    def deliver(self) -> None:
        """Takes what the runtime has to say."""
        for ticket, value, error in self.mailbox.take():
            call = self.calls.get(ticket)
            if call is None:
                continue
            running, future = call
            if value is not None or error is not None:
                self._settle(ticket, future, value, error)
            elif (descriptor := running.wait_fd) is not None:
                self._step(descriptor, running, future)

    def watch(self, running: PendingCall, future: asyncio.Future[Any]) -> None:
        """Has the loop take the call's next step when there is one to take."""
        descriptor = running.wait_fd
        if descriptor is not None:
            future.get_loop().add_reader(descriptor, self._step, descriptor, running, future)

    def _step(self, descriptor: int, running: PendingCall, future: asyncio.Future[Any]) -> None:
        # First: the step may close it, and another may then have its number.
        future.get_loop().remove_reader(descriptor)
        value, error = running.step()
        if value is not None or error is not None:
            self._settle(running.ticket, future, value, error)
        else:
            self.watch(running, future)

    def _settle(self, ticket: int, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self.calls.pop(ticket, None)
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def give_up(self, running: PendingCall, future: asyncio.Future[Any]) -> None:
        """Takes a call back."""
        descriptor = running.wait_fd
        if descriptor is not None:
            future.get_loop().remove_reader(descriptor)
        running.cancel()
        self.calls.pop(running.ticket, None)


_OF_LOOPS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = weakref.WeakKeyDictionary()


async def run(start: Callable[[CompletionQueue, bool], PendingCall]) -> Any:
    """What becomes of the call that `start` begins; given up when the task is cancelled.

    `start` is told where the outcome goes, and whether the loop would carry the call on.
    """
    loop = asyncio.get_running_loop()
    waiting = _OF_LOOPS.get(loop)
    if waiting is None or waiting.pid != os.getpid():
        waiting = _OF_LOOPS[loop] = _Waiting()
        loop.add_reader(waiting.mailbox.fileno(), waiting.deliver)
    future: asyncio.Future[Any] = loop.create_future()
    # Several at once are the runtime's: it carries them on beside the loop.
    running = start(waiting.mailbox, not waiting.calls)
    waiting.calls[running.ticket] = (running, future)
    waiting.watch(running, future)
    try:
        return await future
    except asyncio.CancelledError:
        waiting.give_up(running, future)
        raise
