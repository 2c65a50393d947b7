"""Calls of user functions: reserved arguments, init parameters, and coroutines."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import LoadError

__all__ = ["RESERVED", "Caller", "call_init", "reserved_arguments"]

RESERVED = ("request", "context", "event", "project", "run")
"""Names of a handler's possible arguments, in any order."""


class Caller:
    """Calls functions, and runs coroutines on a shared event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Returns the result of the function."""
        returned = function(**arguments)
        if type(returned) is dict or not inspect.iscoroutine(returned):
            return returned
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(returned)

    def close(self) -> None:
        """Closes the event loop."""
        if self._loop is not None:
            self._loop.close()


def reserved_arguments(handler: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the reserved arguments that a handler declares.

    Raises:
        LoadError: the handler requires other arguments.
    """
    reserved, unknown_names = [], []
    for name, parameter in inspect.signature(handler).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            return RESERVED
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if name in RESERVED and parameter.kind is not parameter.POSITIONAL_ONLY:
            reserved.append(name)
        elif parameter.default is parameter.empty:
            unknown_names.append(name)
    if unknown_names:
        raise LoadError(
            f"handler {getattr(handler, '__name__', 'handler')!r} takes {', '.join(unknown_names)}, without a value; "
            f"it can take {', '.join(RESERVED)}"
        )
    return tuple(reserved)


def call_init(init: Callable[..., Any], context: Any, given: Mapping[str, Any], call: Caller) -> None:
    """Calls the init function with the context and its parameters.

    Raises:
        LoadError: the function does not take the context, or does not match the parameters.
    """
    name = getattr(init, "__name__", "init")
    parameters = inspect.signature(init).parameters
    if "context" not in parameters:
        raise LoadError(f"init_function {name!r} must take context")
    named = {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    expected = [key for key in named if key != "context"]
    missing = [key for key in expected if named[key].default is inspect.Parameter.empty and key not in given]
    unknown = [key for key in given if key not in expected and not takes_any] + ["context"] * ("context" in given)
    if missing or unknown:
        raise LoadError(
            f"init_function {name!r} expects the parameters {', '.join(expected) or 'none'}, "
            f"init_parameters has {', '.join(given) or 'none'}"
        )
    call(init, {"context": context, **given})
