"""`decorator`: wrappers for functions, methods and objects with `__call__`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["Decorated", "Wrapper", "decorator", "layers", "receiver", "unwrapped"]

Wrapper = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]
"""Receives the wrapped callable, its bound object or None, and the arguments of the call."""


class Decorated:
    """A callable with a wrapper. Its attributes are those of the wrapped callable, for reading and for writing.

    As a class attribute it binds like a function.
    """

    __slots__ = ("__wrapped__", "_bound_to", "_decorator", "_wrapper")

    __wrapped__: Any
    """The wrapped callable."""
    _decorator: Any
    """The decorator that created it."""

    def __init__(self, wrapped: Any, wrapper: Wrapper, decorator: Any, bound_to: Any = None) -> None:
        set_attribute = object.__setattr__
        set_attribute(self, "__wrapped__", wrapped)
        set_attribute(self, "_wrapper", wrapper)
        set_attribute(self, "_decorator", decorator)
        # Only methods count: the `__self__` of a builtin is its module.
        set_attribute(self, "_bound_to", receiver(wrapped) if bound_to is None else bound_to)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._wrapper(self.__wrapped__, self._bound_to, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        bind = getattr(type(self.__wrapped__), "__get__", None)
        if bind is None:
            return self
        bound = bind(self.__wrapped__, instance, owner)
        return self if bound is self.__wrapped__ else Decorated(bound, self._wrapper, self._decorator, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__wrapped__, name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return getattr(self.__wrapped__, "__doc__", None)

    @property
    def __module__(self) -> str:  # type: ignore[override]
        return str(getattr(self.__wrapped__, "__module__", __name__))

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def decorator(wrapper: Wrapper) -> Callable[[Any], Any]:
    """Creates a decorator from a wrapper."""

    def decorate(wrapped: Any) -> Decorated:
        return Decorated(wrapped, wrapper, decorate)

    decorate.__name__ = decorate.__qualname__ = wrapper.__name__
    decorate.__doc__, decorate.__module__ = wrapper.__doc__, wrapper.__module__
    return decorate


def unwrapped(target: Any) -> Any:
    """Returns the callable inside all decorators of this package."""
    while isinstance(target, Decorated):
        target = target.__wrapped__
    return target


def receiver(target: Any) -> Any:
    """Returns the object of a bound method; None for anything else."""
    if isinstance(target, Decorated):
        return target._bound_to
    return target.__self__ if inspect.ismethod(target) else None


def layers(target: Any) -> list[Any]:
    """Returns the decorators of this package around a callable, outermost first."""
    found = []
    while isinstance(target, Decorated):
        found.append(target._decorator)
        target = target.__wrapped__
    return found
