"""Work that nobody waits for: answers that go to webhooks, and copies for mirrors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["Later"]

SECONDS = 4.0
"""How long an end of the server waits for it: a handler that closes has five seconds."""
T = TypeVar("T")


class Later:
    """Keeps such work, and an event loop for whoever has none."""

    def __init__(self) -> None:
        # The loops themselves would let go of it.
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def begin(self, work: Coroutine[Any, Any, None], sent: asyncio.Event) -> None:
        """Begins something, and waits until it is sent: then a caller may leave."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: sent.set())
        await sent.wait()

    async def finish(self) -> None:
        """Waits for a while for what was begun on the loop that runs."""
        here = asyncio.get_running_loop()
        if mine := [one for one in [*self._tasks] if one.get_loop() is here]:
            await asyncio.wait(mine, timeout=SECONDS)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs something on an event loop of its own, and gives what comes of it."""
        with self._lock:
            loop = self._loop
            if loop is None:
                loop = self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(loop,), name="modelbit", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def finish_now(self) -> None:
        """The same as `finish`, for what `run` has begun."""
        if self._loop is not None:
            self.run(self.finish())

    def close(self) -> None:
        """Ends the event loop of `run`, on which nothing runs any more."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
