"""`StopResult`: the result of `ModelServer.stop`, a coroutine that need not be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from typing import Any

__all__ = ["StopResult"]


class StopResult(Coroutine[Any, Any, None]):
    """The end of a server. It may be awaited, made a task of, or ignored without a warning."""

    def __init__(self, ended: Future[None]) -> None:
        self._ended = ended
        self._coroutine: Coroutine[Any, Any, None] | None = None

    def __await__(self) -> Generator[Any, Any, None]:
        return _wait(self._ended).__await__()

    def send(self, value: Any) -> Any:
        """Implements `Coroutine`."""
        return self._started().send(value)

    def throw(self, *arguments: Any) -> Any:
        """Implements `Coroutine`."""
        return self._started().throw(*arguments)

    def close(self) -> None:
        """Implements `Coroutine`."""
        if self._coroutine is not None:
            self._coroutine.close()

    def _started(self) -> Coroutine[Any, Any, None]:
        # Created at first use: Python warns of a coroutine that is never awaited.
        if self._coroutine is None:
            self._coroutine = _wait(self._ended)
        return self._coroutine


async def _wait(ended: Future[None]) -> None:
    # Shielded: cancelling the wait must not undo the stop.
    await asyncio.shield(asyncio.wrap_future(ended))
