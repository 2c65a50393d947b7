"""Handlers of either version of KServe, called with what they take."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["call", "hook", "is_old", "takes_old"]


def takes_old(model: Any, name: str) -> bool:
    """Whether a model's handler of that name is to get what those of KServe 0.13 get.

    A chat that an adapter makes a completion of goes by the handler that the script wrote.
    """
    handler = getattr(model, name)
    follows = getattr(handler, "follows", None)
    return is_old(handler if follows is None else getattr(model, follows))


def is_old(handler: Callable[..., Any]) -> bool:
    """Whether a handler takes the request alone, as those of KServe 0.13 do."""
    parameters = _parameters(handler)
    several = len(parameters) > 1 or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return not several


async def call(handler: Callable[..., Any], request: Any, raw_request: Any, context: dict[str, Any] | None) -> Any:
    """What a handler gives. A plain one, which might block, runs on a thread."""
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
    # Between the versions, `context` came after `raw_request`.
    given = {"raw_request": raw_request, "context": context}
    return {name: value for name, value in given.items() if name in parameters}


async def hook(method: Callable[..., Any], *given: Any, raw_request: Any) -> None:
    """Calls a script's hook, plain or async, with the HTTP request if it takes it."""
    parameters = _parameters(method)
    named = {"raw_request": raw_request} if "raw_request" in parameters else {}
    result = method(*given, **named)
    if inspect.isawaitable(result):
        await result


def _parameters(handler: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """A handler's parameters by name, without its object."""
    function = getattr(handler, "__func__", None)
    return _of(handler, bound=False) if function is None else _of(function, bound=True)


@functools.lru_cache(maxsize=1024)
def _of(function: Callable[..., Any], *, bound: bool) -> dict[str, inspect.Parameter]:
    # Asked for at each request, and slow.
    named = list(inspect.signature(function).parameters.items())
    return dict(named[1:] if bound else named)
