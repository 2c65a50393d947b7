"""Properties of a model's code: overridden methods, async handlers, streamed responses."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any

from penstock.compat.kserve._model.stages import Stages
from penstock.compat.kserve.model import BaseKServeModel, InferenceModel, Model

__all__ = ["is_async_model", "is_streaming", "overrides_call", "overrides_health"]

_ITERATORS = ("AsyncIterator", "AsyncGenerator", "AsyncIterable")


def overrides_call(model: Any) -> bool:
    """Returns whether a model overrides `__call__` instead of its stages."""
    return not isinstance(model, Model) or type(model).__call__ is not Model.__call__


def overrides_health(model: Any) -> bool:
    """Returns whether a model overrides `healthy`."""
    return "healthy" in vars(model) or type(model).healthy is not BaseKServeModel.healthy


def is_async_model(model: Any) -> bool:
    """Returns whether a model runs on an event loop."""
    if overrides_call(model):
        call = type(model).__call__
        return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__wrapped__", None))
    return Stages(model, Model).any_async or is_streaming(model)


def is_streaming(model: Any) -> bool:
    """Returns whether a model's code creates async iterators, as far as can be seen without running it."""
    return any(
        inspect.isasyncgenfunction(function) or _is_annotated_so(function) or _has_generators(function.__code__)
        for function in _own_functions(model)
    )


def _own_functions(model: Any) -> Iterator[Any]:
    """Yields the functions of a model's classes, without those of the base classes of this package."""
    for kind in type(model).__mro__:
        if kind in (Model, InferenceModel, BaseKServeModel, object):
            continue
        for value in vars(kind).values():
            function = inspect.unwrap(value) if callable(value) else getattr(value, "__func__", None)
            if inspect.isfunction(function):
                yield function


def _is_annotated_so(function: Any) -> bool:
    annotation = function.__annotations__.get("return", "")
    return any(word in (annotation if isinstance(annotation, str) else repr(annotation)) for word in _ITERATORS)


def _has_generators(code: CodeType) -> bool:
    return any(
        isinstance(inner, CodeType) and (inner.co_flags & inspect.CO_ASYNC_GENERATOR or _has_generators(inner))
        for inner in code.co_consts
    )
