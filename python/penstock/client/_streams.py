"""The pieces of a streamed answer, for a thread and for an event loop."""

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
    """The pieces of a streamed answer. Iterate over it; it is a context manager too."""

    def __init__(self, pieces: _core.BlockingStream) -> None:
        self._pieces = pieces

    def __next__(self) -> Result:
        piece = self._pieces.next()
        if piece is None:
            raise StopIteration
        return Result(piece)

    def close(self) -> None:
        """Ends the stream, also on the server's side."""
        self._pieces.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncStream(AsyncIterator[Result]):
    """The pieces of a streamed answer. Iterate over it; it is an async context manager too."""

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
            # The last first, to be popped.
            self._batch.reverse()
        if not self._batch:
            self._ended = True
            raise StopAsyncIteration
        piece = self._batch.pop()
        if isinstance(piece, Exception):
            self._ended = True
            raise piece
        return Result(piece)

    async def close(self) -> None:
        """Ends the stream, also on the server's side."""
        self._ended = True
        self._batch.clear()
        if self._pieces is not None:
            self._pieces.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
