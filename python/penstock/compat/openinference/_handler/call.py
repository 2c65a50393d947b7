"""How user functions are called: with what they declare, by name."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import LoadError

__all__ = ["RESERVED", "Waiting", "call_init", "wanted"]

RESERVED = ("request", "context", "event", "project", "run")
"""What a handler may declare, in whatever order."""


class Waiting:
    """Calls functions, and waits for those that are async on an event loop that all of them share."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """What the function returns."""
        returned = function(**arguments)
        if type(returned) is dict or not inspect.iscoroutine(returned):
            return returned
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(returned)

    def close(self) -> None:
        """Ends the event loop."""
        if self._loop is not None:
            self._loop.close()


def wanted(handler: Callable[..., Any]) -> tuple[str, ...]:
    """Which of the reserved arguments a handler takes.

    Raises:
        LoadError: it takes others, which nobody would fill.
    """
    found, others = [], []
    for name, one in inspect.signature(handler).parameters.items():
        if one.kind is one.VAR_KEYWORD:
            return RESERVED
        if one.kind is one.VAR_POSITIONAL:
            continue
        if name in RESERVED and one.kind is not one.POSITIONAL_ONLY:
            found.append(name)
        elif one.default is one.empty:
            others.append(name)
    if others:
        raise LoadError(
            f"handler {getattr(handler, '__name__', 'handler')!r} takes {', '.join(others)}, which nothing fills; "
            f"it can take {', '.join(RESERVED)}"
        )
    return tuple(found)


def call_init(init: Callable[..., Any], context: Any, given: Mapping[str, Any], call: Waiting) -> None:
    """Calls the init function with the context and its parameters.

    Raises:
        LoadError: it does not take the context, or not those parameters.
    """
    name = getattr(init, "__name__", "init")
    parameters = inspect.signature(init).parameters
    if "context" not in parameters:
        raise LoadError(f"init_function {name!r} must take context")
    named = {key: one for key, one in parameters.items() if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}
    rest = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    expected = [key for key in named if key != "context"]
    missing = [key for key in expected if named[key].default is inspect.Parameter.empty and key not in given]
    unknown = [key for key in given if key not in expected and not rest] + ["context"] * ("context" in given)
    if missing or unknown:
        raise LoadError(
            f"init_function {name!r} expects the parameters {', '.join(expected) or 'none'}, "
            f"init_parameters has {', '.join(given) or 'none'}"
        )
    call(init, {"context": context, **given})
