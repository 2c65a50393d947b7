"""Streamed responses, for a thread and for an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from penstock.client import _loop
from penstock.client._result import Result

if TYPE_CHECKING:
    from typing_extensions import Self

    from penstock import _core
    from penstock.client._result import Answer

__all__ = ["AsyncStream", "Stream"]


class Stream(Iterator[Result]):
    """Iterator over the chunks of a streamed response, and a context manager."""

    def __init__(self, pieces: _core.BlockingStream) -> None:
        self._pieces = pieces

    def __next__(self) -> Result:
        chunk = self._pieces.next()
        if chunk is None:
            raise StopIteration
        return Result(chunk)

    def close(self) -> None:
        """Ends the stream, also on the server."""
        self._pieces.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncStream(AsyncIterator[Result]):
    """Async iterator over the chunks of a streamed response, and an async context manager."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self._pieces: _core.RuntimeStream | None = None
        self._batch: list[Answer | Exception] = []
        self._ended = False

    async def __anext__(self) -> Result:
        if not self._batch and not self._ended:
            if self._pieces is None:
                self._pieces = await self._opened()
            pieces = self._pieces
            self._batch = await _loop.run(lambda mailbox, _: pieces.next(mailbox))
            # Reversed, so that chunks can be popped.
            self._batch.reverse()
        if not self._batch:
            self._ended = True
            raise StopAsyncIteration
        chunk = self._batch.pop()
        if isinstance(chunk, Exception):
            self._ended = True
            raise chunk
        return Result(chunk)

    async def close(self) -> None:
        """Ends the stream, also on the server."""
        self._ended = True
        self._batch.clear()
        if self._pieces is not None:
            self._pieces.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
