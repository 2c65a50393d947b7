"""Inspection of inference callables through decorators, partials and bound methods."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from penstock.compat.pytriton.decorators._wrapping import layers, unwrapped

__all__ = ["function_inside_batch", "innermost_function", "is_async"]


def innermost_function(target: Any) -> Any:
    """Returns the function below PyTriton's decorators, partials, bound methods and objects with `__call__`."""
    while True:
        target = unwrapped(target)
        if isinstance(target, functools.partial):
            target = target.func
        elif inspect.isfunction(target) or inspect.ismethod(target) or inspect.isbuiltin(target):
            return target
        elif inspect.ismethod(unwrapped(target.__call__)) or layers(target.__call__):
            target = target.__call__
        else:
            return target


def is_async(target: Any) -> bool:
    """True if calls return a coroutine or an async generator."""
    function = innermost_function(target)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def function_inside_batch(target: Any) -> Any:
    """Returns the function inside `batch`, if the callable has no other decorators outside; else None.

    Penstock joins the rows of a batch, and all its requests have the same inputs. So neither `batch` nor
    `group_by_keys` has any work left, and the function is called directly.
    """
    from penstock.compat.pytriton.decorators import batch, group_by_keys

    target = target.__call__ if layers(getattr(target, "__call__", None)) else target  # noqa: B004
    while layers(target)[:1] == [group_by_keys]:
        target = target.__wrapped__
    return target.__wrapped__ if layers(target)[:1] == [batch] else None
