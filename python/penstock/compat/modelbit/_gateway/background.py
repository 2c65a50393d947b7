"""Tasks that outlive their request: webhook deliveries and mirrored requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["BackgroundTasks"]

SECONDS = 4.0
"""Longest wait when the server stops: a handler has five seconds to close."""
T = TypeVar("T")


class BackgroundTasks:
    """Background tasks, and an event loop for threads without one."""

    def __init__(self) -> None:
        # An event loop holds only weak references to its tasks.
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self, work: Coroutine[Any, Any, None], sent: asyncio.Event) -> None:
        """Starts a task and returns once `sent` is set: the client may disconnect from then on."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: sent.set())
        await sent.wait()

    async def drain(self) -> None:
        """Waits up to `SECONDS` for the tasks of the running loop."""
        loop = asyncio.get_running_loop()
        if tasks := [one for one in [*self._tasks] if one.get_loop() is loop]:
            await asyncio.wait(tasks, timeout=SECONDS)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on a background event loop and returns its result."""
        with self._lock:
            loop = self._loop
            if loop is None:
                loop = self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(loop,), name="modelbit", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def drain_sync(self) -> None:
        """Waits up to `SECONDS` for the tasks started through `run`."""
        if self._loop is not None:
            self.run(self.drain())

    def close(self) -> None:
        """Stops the event loop of `run`."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
