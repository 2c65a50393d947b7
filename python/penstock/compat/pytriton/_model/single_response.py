"""Single response of a callable that may return a generator or an awaitable."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator
from typing import Any

from penstock.compat.pytriton.exceptions import PyTritonRuntimeError

__all__ = ["from_generator", "resolve"]

_EXHAUSTED: Any = object()


def from_generator(responses: Generator[Any, Any, Any], model: str) -> Any:
    """Returns the only value of a generator.

    Raises:
        PyTritonRuntimeError: the generator yields nothing, or more than one value.
    """
    try:
        first = next(responses, _EXHAUSTED)
        return _only(first, next(responses, _EXHAUSTED), model)
    finally:
        responses.close()


async def resolve(returned: Any, model: str) -> Any:
    """Returns the awaited value, or the only value of a generator, of a callable's return value.

    Raises:
        PyTritonRuntimeError: the generator yields nothing, or more than one value.
    """
    if inspect.isasyncgen(returned):
        return await _from_async_generator(returned, model)
    if inspect.isgenerator(returned):
        return from_generator(returned, model)
    return await returned if inspect.isawaitable(returned) else returned


async def _from_async_generator(responses: AsyncGenerator[Any, Any], model: str) -> Any:
    try:
        first = await anext(responses, _EXHAUSTED)
        return _only(first, await anext(responses, _EXHAUSTED), model)
    finally:
        await responses.aclose()


def _only(first: Any, second: Any, model: str) -> Any:
    if first is _EXHAUSTED:
        raise PyTritonRuntimeError(f"model '{model}': the inference callable yielded nothing")
    if second is not _EXHAUSTED:
        raise PyTritonRuntimeError(
            f"model '{model}': the inference callable yielded more than once; "
            "bind it with ModelConfig(decoupled=True) to send several responses"
        )
    return first
