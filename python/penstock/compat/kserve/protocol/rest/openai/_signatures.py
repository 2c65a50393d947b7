"""Calls of handlers of either KServe version with the arguments that they take."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["call", "hook", "is_old", "takes_old"]


def takes_old(model: Any, name: str) -> bool:
    """Returns whether a model's handler gets the requests of KServe 0.13.

    For an adapter's chat handler the script's completion handler decides.
    """
    handler = getattr(model, name)
    follows = getattr(handler, "follows", None)
    return is_old(handler if follows is None else getattr(model, follows))


def is_old(handler: Callable[..., Any]) -> bool:
    """Returns whether a handler takes the request alone, as in KServe 0.13."""
    parameters = _parameters(handler)
    several = len(parameters) > 1 or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return not several


async def call(handler: Callable[..., Any], request: Any, raw_request: Any, context: dict[str, Any] | None) -> Any:
    """Returns a handler's result. A plain handler might block, and runs on a thread."""
    arguments = _arguments(handler, raw_request, context)
    if not inspect.iscoroutinefunction(handler):
        given = await asyncio.to_thread(handler, request, **arguments)
    else:
        given = handler(request, **arguments)
    return await given if inspect.isawaitable(given) else given


def _arguments(handler: Callable[..., Any], raw_request: Any, context: dict[str, Any] | None) -> dict[str, Any]:
    parameters = _parameters(handler)
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return {"raw_request": raw_request, "context": context}
    # `context` was added later than `raw_request`: some handlers take only the latter.
    given = {"raw_request": raw_request, "context": context}
    return {name: value for name, value in given.items() if name in parameters}


async def hook(method: Callable[..., Any], *given: Any, raw_request: Any) -> None:
    """Calls a script's hook, plain or async, with the HTTP request if it takes that."""
    parameters = _parameters(method)
    named = {"raw_request": raw_request} if "raw_request" in parameters else {}
    result = method(*given, **named)
    if inspect.isawaitable(result):
        await result


def _parameters(handler: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Returns a handler's parameters by name, without `self`."""
    function = getattr(handler, "__func__", None)
    return _of(handler, bound=False) if function is None else _of(function, bound=True)


@functools.lru_cache(maxsize=1024)
def _of(function: Callable[..., Any], *, bound: bool) -> dict[str, inspect.Parameter]:
    # Cached: needed on each request, and slow.
    named = list(inspect.signature(function).parameters.items())
    return dict(named[1:] if bound else named)
