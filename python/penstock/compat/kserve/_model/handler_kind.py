"""What kind of code a model is: what it overrides, whether it waits, and whether it answers in pieces."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any

from penstock.compat.kserve._model.stages import Stages
from penstock.compat.kserve.model import BaseKServeModel, InferenceModel, Model

__all__ = ["answers_in_pieces", "calls_itself", "checks_health", "waits"]

_PIECES = ("AsyncIterator", "AsyncGenerator", "AsyncIterable")


def calls_itself(model: Any) -> bool:
    """Whether a model has a `__call__` of its own, instead of stages."""
    return not isinstance(model, Model) or type(model).__call__ is not Model.__call__


def checks_health(model: Any) -> bool:
    """Whether a model has a `healthy` of its own."""
    return "healthy" in vars(model) or type(model).healthy is not BaseKServeModel.healthy


def waits(model: Any) -> bool:
    """Whether a model is to run on an event loop."""
    if calls_itself(model):
        call = type(model).__call__
        return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__wrapped__", None))
    return Stages(model, Model).waits or answers_in_pieces(model)


def answers_in_pieces(model: Any) -> bool:
    """Whether a model's code makes async iterators, as far as one can see without running it."""
    return any(
        inspect.isasyncgenfunction(function) or _says_so(function) or _makes_generators(function.__code__)
        for function in _own_functions(model)
    )


def _own_functions(model: Any) -> Iterator[Any]:
    """The functions of a model's classes, down to those that it was derived from here."""
    for kind in type(model).__mro__:
        if kind in (Model, InferenceModel, BaseKServeModel, object):
            continue
        for found in vars(kind).values():
            function = inspect.unwrap(found) if callable(found) else getattr(found, "__func__", None)
            if inspect.isfunction(function):
                yield function


def _says_so(function: Any) -> bool:
    said = function.__annotations__.get("return", "")
    return any(word in (said if isinstance(said, str) else repr(said)) for word in _PIECES)


def _makes_generators(code: CodeType) -> bool:
    return any(
        isinstance(inner, CodeType) and (inner.co_flags & inspect.CO_ASYNC_GENERATOR or _makes_generators(inner))
        for inner in code.co_consts
    )
