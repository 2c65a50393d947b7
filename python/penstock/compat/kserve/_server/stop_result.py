"""What `ModelServer.stop` gives: a coroutine that need not be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from typing import Any

__all__ = ["Stopping"]


class Stopping(Coroutine[Any, Any, None]):
    """The end of a server. Awaiting it, or making a task of it, waits for that; leaving it alone does no harm."""

    def __init__(self, ended: Future[None]) -> None:
        self._ended = ended
        self._waiting: Coroutine[Any, Any, None] | None = None

    def __await__(self) -> Generator[Any, Any, None]:
        return _wait(self._ended).__await__()

    def send(self, value: Any) -> Any:
        """As a coroutine's."""
        return self._begun().send(value)

    def throw(self, *arguments: Any) -> Any:
        """As a coroutine's."""
        return self._begun().throw(*arguments)

    def close(self) -> None:
        """As a coroutine's."""
        if self._waiting is not None:
            self._waiting.close()

    def _begun(self) -> Coroutine[Any, Any, None]:
        # Made when it is needed: one that is never awaited would be warned of.
        if self._waiting is None:
            self._waiting = _wait(self._ended)
        return self._waiting


async def _wait(ended: Future[None]) -> None:
    # Whoever gives up waiting does not undo the stop.
    await asyncio.shield(asyncio.wrap_future(ended))
