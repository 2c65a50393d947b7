"""Async handlers as blocking ones, for instances in processes, which compute one call at a time."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from penstock._runtime.event_loop import new_loop
from penstock._spec.definition import BoundHandler, Handler

__all__ = ["blocking"]


def blocking(factory: Callable[[], Handler], *, streams: bool) -> Handler:
    """Builds an async handler whose event loop runs during each call."""
    loop = new_loop()
    run = loop.run_until_complete

    async def build() -> Handler:
        return factory()

    handler = run(build())

    def call(*inputs: Any) -> Any:
        async def respond() -> Any:
            return await handler.call(*inputs)

        return run(respond())

    def chunks(*inputs: Any) -> Iterator[Any]:
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
                    chunk = run(_next(yielded))
                except StopAsyncIteration:
                    return
                yield chunk
        finally:
            if hasattr(yielded, "aclose"):
                run(yielded.aclose())

    def close() -> None:
        async def close_handler() -> None:
            closing: Any = handler.close()
            if inspect.isawaitable(closing):
                await closing

        try:
            run(close_handler())
        finally:
            run(loop.shutdown_asyncgens())
            run(loop.shutdown_default_executor())
            loop.close()

    return BoundHandler(chunks if streams else call, close, handler.close_sequence)


async def _next(chunks: AsyncIterator[Any]) -> Any:
    return await chunks.__anext__()
