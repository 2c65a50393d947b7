"""`ctx.models[...].stream(...)`: the pieces of a model that streams, for a handler that calls it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

    from penstock._core import PeerPieces

__all__ = ["Pieces"]

_Wait = Callable[[Callable[..., Any], Callable[[], "float | None"]], Awaitable[Any]]


class Pieces:
    """What a model answers piece by piece: an iterator for plain handlers, and an async one for the others.

    The model pauses while nobody reads. Raises what the model answers with where it fails, after the pieces before it.
    """

    __slots__ = ("_call", "_name", "_plain", "_ready", "_wait")

    def __init__(self, call: PeerPieces, plain: Callable[[dict[str, Any]], Any], name: str, wait: _Wait) -> None:
        self._call, self._plain, self._name, self._wait = call, plain, name, wait
        self._ready: deque[dict[str, Any]] = deque()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """The next piece; waits for it without the interpreter."""
        if asyncio._get_running_loop() is not None:
            raise RuntimeError(
                f"reading would block the event loop: write `async for ... in ctx.models[{self._name!r}].stream(...)` "
                "in an async handler"
            )
        while not self._ready:
            if not self._take(self._call.wait()):
                raise StopIteration
        return self._plain(self._ready.popleft())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """The next piece; other tasks run meanwhile."""
        while not self._ready:
            if not self._take(await self._wait(self._call.poll, lambda: self._call.patience)):
                raise StopAsyncIteration
        return self._plain(self._ready.popleft())

    def _take(self, pieces: list[dict[str, Any]]) -> bool:
        """Whether there are any. The mark of an end that brings nothing is no piece."""
        self._ready.extend(piece for piece in pieces if piece)
        return bool(pieces)

    def close(self) -> None:
        """Ends it: the model's generator is closed. Closing twice does nothing."""
        self._ready.clear()
        self._call.close()

    async def aclose(self) -> None:
        """As `close`."""
        self.close()
