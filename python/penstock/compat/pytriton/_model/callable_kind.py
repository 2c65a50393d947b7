"""What kind of callable it is, whatever it is wrapped in."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from penstock.compat.pytriton.decorators._wrapping import layers, unwrapped

__all__ = ["bare", "inside_of_batch", "is_async"]


def bare(target: Any) -> Any:
    """The function below decorators of this package, partials, bound methods and objects with `__call__`."""
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
    """Whether a call of it has to be awaited, or iterated by awaiting."""
    function = bare(target)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def inside_of_batch(target: Any) -> Any:
    """What takes a batch's arrays by name, where nothing but `batch` is around it; else None.

    A batch comes with its rows joined, and each of its requests has the same inputs, so that neither `batch` nor
    `group_by_keys` has anything to do there.
    """
    from penstock.compat.pytriton.decorators import batch, group_by_keys

    target = target.__call__ if layers(getattr(target, "__call__", None)) else target  # noqa: B004
    while layers(target)[:1] == [group_by_keys]:
        target = target.__wrapped__
    return target.__wrapped__ if layers(target)[:1] == [batch] else None
