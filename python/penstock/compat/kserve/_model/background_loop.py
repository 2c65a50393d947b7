"""A background event loop per process, on which plain code runs awaitables."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable
from typing import Any

__all__ = ["collect", "loop", "resolve"]

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""By process id: a forked child must not use its parent's loop."""


def loop() -> asyncio.AbstractEventLoop:
    """Returns the loop of this process, started on its own thread at first use."""
    running = _loops.get(os.getpid())
    if running is not None:
        return running
    with _lock:
        if os.getpid() not in _loops:
            created = asyncio.new_event_loop()
            threading.Thread(target=created.run_forever, name="kserve-background", daemon=True).start()
            _loops[os.getpid()] = created
        return _loops[os.getpid()]


def resolve(returned: Any) -> Any:
    """Returns a function's result; blocks for it if it is an awaitable."""
    if type(returned) is dict or not hasattr(type(returned), "__await__"):
        return returned
    return asyncio.run_coroutine_threadsafe(_result(returned), loop()).result()


def collect(chunks: AsyncIterator[Any]) -> list[Any]:
    """Returns all items of an async iterator."""
    return asyncio.run_coroutine_threadsafe(_all(chunks), loop()).result()


async def _result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


async def _all(chunks: AsyncIterator[Any]) -> list[Any]:
    return [chunk async for chunk in chunks]
