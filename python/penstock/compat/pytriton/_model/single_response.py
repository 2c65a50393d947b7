"""The one answer of a callable that may be a generator, or have to be awaited."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator
from typing import Any

from penstock.compat.pytriton.exceptions import PyTritonRuntimeError

__all__ = ["of_generator", "settled"]

_NOTHING: Any = object()


def of_generator(pieces: Generator[Any, Any, Any], model: str) -> Any:
    """The only thing that a generator yields.

    Raises:
        PyTritonRuntimeError: it yields nothing, or more than one.
    """
    try:
        first = next(pieces, _NOTHING)
        return _only(first, next(pieces, _NOTHING), model)
    finally:
        pieces.close()


async def settled(returned: Any, model: str) -> Any:
    """The answer of what a callable returned: awaited, or the only thing that it yields.

    Raises:
        PyTritonRuntimeError: it yields nothing, or more than one.
    """
    if inspect.isasyncgen(returned):
        return await _of_async_generator(returned, model)
    if inspect.isgenerator(returned):
        return of_generator(returned, model)
    return await returned if inspect.isawaitable(returned) else returned


async def _of_async_generator(pieces: AsyncGenerator[Any, Any], model: str) -> Any:
    try:
        first = await anext(pieces, _NOTHING)
        return _only(first, await anext(pieces, _NOTHING), model)
    finally:
        await pieces.aclose()


def _only(first: Any, second: Any, model: str) -> Any:
    if first is _NOTHING:
        raise PyTritonRuntimeError(f"model '{model}': the inference callable yielded nothing")
    if second is not _NOTHING:
        raise PyTritonRuntimeError(
            f"model '{model}': the inference callable yielded more than once; "
            "bind it with ModelConfig(decoupled=True) to answer in pieces"
        )
    return first
