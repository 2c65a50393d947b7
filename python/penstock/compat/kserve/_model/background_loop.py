"""An event loop in the background, for what plain code has to wait for."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable
from typing import Any

__all__ = ["collected", "finished", "loop"]

_lock = threading.Lock()
_started: dict[int, asyncio.AbstractEventLoop] = {}


def loop() -> asyncio.AbstractEventLoop:
    """The loop of this process, which runs on a thread of its own."""
    found = _started.get(os.getpid())
    if found is not None:
        return found
    with _lock:
        if os.getpid() not in _started:
            made = asyncio.new_event_loop()
            threading.Thread(target=made.run_forever, name="kserve-background", daemon=True).start()
            _started[os.getpid()] = made
        return _started[os.getpid()]


def finished(returned: Any) -> Any:
    """What a plain function returned, waited for if it is an awaitable."""
    if type(returned) is dict or not hasattr(type(returned), "__await__"):
        return returned
    return asyncio.run_coroutine_threadsafe(_result(returned), loop()).result()


def collected(pieces: AsyncIterator[Any]) -> list[Any]:
    """All that an async iterator has."""
    return asyncio.run_coroutine_threadsafe(_all(pieces), loop()).result()


async def _result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


async def _all(pieces: AsyncIterator[Any]) -> list[Any]:
    return [piece async for piece in pieces]
