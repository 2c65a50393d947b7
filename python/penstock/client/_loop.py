"""Futures of an event loop, for calls on the shared runtime or on the loop itself.

The runtime puts outcomes into a completion queue and makes its descriptor readable. The loop takes all outcomes in one
turn: one wake-up for many calls, and no thread of the runtime needs the GIL.

For a single call that would wake two threads without need. The loop watches its socket instead, and reads the
response itself.
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
    """The pending calls of one event loop."""

    def __init__(self) -> None:
        self.mailbox = _core.CompletionQueue()
        self.calls: dict[int, tuple[PendingCall, asyncio.Future[Any]]] = {}
        self.pid = os.getpid()

    def deliver(self) -> None:
        """Handles outcomes from the runtime."""
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
        """Runs the next step of a call on the loop when its socket is ready."""
        descriptor = running.wait_fd
        if descriptor is not None:
            future.get_loop().add_reader(descriptor, self._step, descriptor, running, future)

    def _step(self, descriptor: int, running: PendingCall, future: asyncio.Future[Any]) -> None:
        # Before the step, which may close the socket: its number may be reused.
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
        """Cancels a call."""
        descriptor = running.wait_fd
        if descriptor is not None:
            future.get_loop().remove_reader(descriptor)
        running.cancel()
        self.calls.pop(running.ticket, None)


_OF_LOOPS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = weakref.WeakKeyDictionary()


async def run(start: Callable[[CompletionQueue, bool], PendingCall]) -> Any:
    """The outcome of the call that `start` begins. Cancelling the task cancels the call.

    `start` gets the queue for the outcome, and whether the loop can run the call itself.
    """
    loop = asyncio.get_running_loop()
    waiting = _OF_LOOPS.get(loop)
    if waiting is None or waiting.pid != os.getpid():
        waiting = _OF_LOOPS[loop] = _Waiting()
        loop.add_reader(waiting.mailbox.fileno(), waiting.deliver)
    future: asyncio.Future[Any] = loop.create_future()
    # Concurrent calls run on the runtime, in parallel to the loop.
    running = start(waiting.mailbox, not waiting.calls)
    waiting.calls[running.ticket] = (running, future)
    waiting.watch(running, future)
    try:
        return await future
    except asyncio.CancelledError:
        waiting.give_up(running, future)
        raise
