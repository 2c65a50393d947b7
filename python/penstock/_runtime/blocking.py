"""Async handlers as plain ones, for instances that compute one call at a time: those in processes."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from penstock._runtime.event_loop import new_loop
from penstock._spec.definition import BoundHandler, Handler

__all__ = ["blocking"]


def blocking(factory: Callable[[], Handler], *, streams: bool) -> Handler:
    """Builds an async handler on an event loop that runs while one of its calls does."""
    loop = new_loop()
    run = loop.run_until_complete

    async def built() -> Handler:
        return factory()

    handler = run(built())

    def call(*inputs: Any) -> Any:
        async def answer() -> Any:
            return await handler.call(*inputs)

        return run(answer())

    def pieces(*inputs: Any) -> Iterator[Any]:
        async def begin() -> Any:
            yielded = handler.call(*inputs)
            return await yielded if inspect.isawaitable(yielded) else yielded

        yielded = run(begin())
        try:
            if not isinstance(yielded, AsyncIterator):
                yield from yielded
                return
            while True:
                try:
                    piece = run(_next(yielded))
                except StopAsyncIteration:
                    return
                yield piece
        finally:
            if hasattr(yielded, "aclose"):
                run(yielded.aclose())

    def close() -> None:
        async def closed() -> None:
            closing: Any = handler.close()
            if inspect.isawaitable(closing):
                await closing

        try:
            run(closed())
        finally:
            run(loop.shutdown_asyncgens())
            run(loop.shutdown_default_executor())
            loop.close()

    return BoundHandler(pieces if streams else call, close, handler.close_sequence)


async def _next(pieces: AsyncIterator[Any]) -> Any:
    return await pieces.__anext__()
