"""Type hints: resolution from text, removal of `None` and `Annotated`, classification."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import functools
import inspect
import operator
import re
import sys
import types
import typing
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Annotated, Any, Union

import numpy as np

from penstock._spec.tensor import Tensor
from penstock.errors import SignatureError

LISTS = (list, collections.abc.Sequence)
OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
UNIONS = (Union, types.UnionType)
UNKNOWN = object()
"""The hint of items whose type is not declared."""

_CONTEXT_NAMES = ("Context", "penstock.Context")


def plain_function(handler: Callable[..., Any]) -> Any:
    """The plain function behind a method, partial, wrapper or callable object."""
    while True:
        if isinstance(handler, functools.partial):
            handler = handler.func
        elif hasattr(handler, "__wrapped__"):
            handler = handler.__wrapped__
        elif inspect.ismethod(handler):
            handler = handler.__func__
        elif inspect.isroutine(handler) or isinstance(handler, type):
            return handler
        else:
            # A callable object: its class declares the parameters.
            handler = type(handler).__call__


def resolve(handler: Callable[..., Any]) -> dict[str, Any]:
    """The handler's annotations, evaluated one by one.

    An annotation that cannot be evaluated stays text: its parameter may not need a hint, or it may be a `Context`
    that is imported for type checkers only.
    """
    bare = plain_function(handler)
    annotations = getattr(bare, "__annotations__", {})
    scope = _closure(bare) if inspect.isfunction(bare) else {}
    resolved = {}
    for name, annotation in annotations.items():
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints = typing.get_type_hints(holder, getattr(bare, "__globals__", {}), scope, include_extras=True)
        except Exception:
            # Evaluation of user text can raise anything; the text itself makes a better message.
            hints = {name: annotation}
        resolved[name] = unaliased(hints[name])
    return resolved


def _closure(function: types.FunctionType) -> dict[str, Any]:
    """The closure variables of a function. Unbound ones, such as its own name before decoration, are left out."""
    variables = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            variables[name] = cell.cell_contents
    return variables


def is_context(hint: Any) -> bool:
    """True if a hint is `penstock.Context`, or text that means it."""
    if isinstance(hint, str):
        return hint in _CONTEXT_NAMES
    # If the compiled extension is not loaded, no annotation can refer to its class.
    core = sys.modules.get("penstock._core")
    return core is not None and hint is getattr(core, "Context", None)


def unaliased(hint: Any) -> Any:
    """The hint behind a `type` alias, such as numpy's `NDArray`; other hints unchanged."""
    while not isinstance(hint, type):
        alias, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
        if type(alias).__name__ != "TypeAliasType":
            return hint
        hint = alias.__value__[arguments] if arguments else alias.__value__
    return hint


def without_none(hint: Any) -> tuple[Any, bool]:
    """The hint without `None`, and whether it had one: `X | None`, `Optional[X]`, also inside `Annotated`."""
    if typing.get_origin(hint) is Annotated:
        inner, *metadata = typing.get_args(hint)
        bare, nullable = without_none(inner)
        # A call, since Python 3.10 has no star in a subscript.
        return (operator.getitem(Annotated, (bare, *metadata)) if nullable else hint), nullable
    if typing.get_origin(hint) in UNIONS:
        members = typing.get_args(hint)
        others = tuple(member for member in members if member is not type(None))
        if len(others) < len(members):
            return functools.reduce(operator.or_, others), True
    return hint, False


def split_annotated(hint: Any, where: str) -> tuple[Any, Tensor | None]:
    """The hint without `Annotated`, and the `Tensor` in its metadata, if any."""
    if typing.get_origin(hint) is not Annotated:
        return hint, None
    tensors = [item for item in hint.__metadata__ if isinstance(item, Tensor)]
    if len(tensors) > 1:
        raise SignatureError(f"{where} has {len(tensors)} Tensors in its Annotated; keep one")
    return typing.get_args(hint)[0], tensors[0] if tensors else None


def item(hint: Any) -> Any:
    """The hint of an iterator's items, without `penstock.Final`; `UNKNOWN` if it is not declared."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if not arguments or not isinstance(origin, type) or not issubclass(origin, (Iterable, AsyncIterable)):
        return UNKNOWN
    item = unaliased(arguments[0])
    if typing.get_origin(item) in UNIONS:
        members = [member for member in typing.get_args(item) if getattr(member, "__name__", "") != "Final"]
        item = functools.reduce(operator.or_, members)
    return item


def is_document(hint: Any) -> bool:
    """True if a parameter with this hint takes a JSON document. Of a union, one member suffices: `str | Delta`."""
    origin = typing.get_origin(hint) or hint
    if origin in UNIONS:
        return any(is_document(member) for member in typing.get_args(hint))
    if hint in (Any, object) or origin in LISTS or origin in OBJECTS:
        return True
    return isinstance(origin, type) and (
        dataclasses.is_dataclass(origin)
        or typing.is_typeddict(origin)
        or hasattr(origin, "model_validate")
        or hasattr(origin, "__struct_fields__")
    )


def is_array(hint: Any) -> bool:
    """True if a hint is an array or scalar of numpy, which lacks the datatype or shape of a tensor."""
    bare = typing.get_origin(hint) or hint
    return isinstance(bare, type) and issubclass(bare, (np.ndarray, np.generic))


def show(hint: Any) -> str:
    """A hint as text, close to its source."""
    if isinstance(hint, str):
        return f"{hint!r} (a name that cannot be resolved)"
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "")


def show_short(hint: Any) -> str:
    """A hint as text, without the modules of its classes."""
    return re.sub(r"\b(?:\w+\.)+", "", show(hint))


def own_doc(target: Any) -> str:
    """The docstring in the source, without indentation; empty if there is none."""
    doc = target.__doc__
    # A dataclass without a docstring gets its signature as one.
    is_written = isinstance(doc, str) and not doc.startswith(f"{getattr(target, '__name__', '')}(")
    return inspect.cleandoc(doc) if is_written else ""


def datatype_text(tensor: Tensor) -> str:
    """The source text of a tensor's datatype, for messages."""
    if tensor.dtype is None:
        return "str" if tensor.text else "bytes"
    return f"np.{tensor.dtype.name.replace('bool', 'bool_')}"


def is_generator(handler: Callable[..., Any]) -> bool:
    """True if the handler is a generator function, plain or async."""
    bare = plain_function(handler)
    return inspect.isgeneratorfunction(bare) or inspect.isasyncgenfunction(bare)


def is_async(handler: Callable[..., Any]) -> bool:
    """True if the handler runs on an event loop."""
    bare = plain_function(handler)
    return inspect.iscoroutinefunction(bare) or inspect.isasyncgenfunction(bare)
