"""Generators of either kind as handlers: how they are recognised, and how async ones are run."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock import _hints

if TYPE_CHECKING:
    import asyncio


def is_generator(handler: Callable[..., Any]) -> bool:
    """Whether a call of the handler makes a generator, plain or async."""
    bare = _hints.plain_function(handler)
    return inspect.isgeneratorfunction(bare) or inspect.isasyncgenfunction(bare)


class Driver:
    """Runs the async generators of one instance on an event loop of its own, on the instance's thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def iterate(self, pieces: Any) -> Any:
        """A plain iterator over what a handler returned; one that is plain already stays as it is."""
        return self._drive(pieces) if isinstance(pieces, AsyncIterator) else pieces

    def closing(self, close: Callable[[], object]) -> Callable[[], object]:
        """A close that closes the loop too."""

        def both() -> None:
            try:
                self._close()
            finally:
                close()

        return both

    def _close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def _drive(self, pieces: AsyncIterator[Any]) -> Iterator[Any]:
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
        run = self._loop.run_until_complete
        try:
            while True:
                try:
                    piece = run(_next(pieces))
                except StopAsyncIteration:
                    return
                yield piece
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                run(close())


async def _next(pieces: AsyncIterator[Any]) -> Any:
    return await pieces.__anext__()
