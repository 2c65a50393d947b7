"""`Adapter`: conversion between plain Python values and arrays, one per type hint, chosen at load.

Handlers that take and return arrays have no adapters.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock._handler import type_hints
from penstock._spec.definition import Document
from penstock._spec.tensor import Tensor
from penstock.errors import HandlerError

_SCALARS: tuple[type, ...] = (bool, int, float, str, bytes)
_ACCEPTED: dict[type, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (float, int, np.floating, np.integer),
    str: (str,),
    bytes: (bytes,),
}


@dataclass(frozen=True, slots=True)
class Adapter:
    """Conversion of values of one type hint."""

    tensor: Tensor
    """The tensor of the values, without a name."""
    to_python: Callable[[np.ndarray[Any, Any], str], Any]
    """Converts an input's array to a value; the name is for messages."""
    to_array: Callable[[Any, str], Any]
    """Converts a value to an output's array, or a plain value; the name is for messages."""
    document: Document | None = None
    """Description of the JSON document, if the tensor carries one."""
    by_row: bool = False
    """True if the value is a list of rows, in which a row that cannot be read is an exception."""


def adapter(hint: Any, where: str, *, reads: bool, document: Any) -> Adapter | None:
    """The adapter of a hint; None for a hint that no rule covers.

    Args:
        hint: The hint, without `Annotated`.
        where: Prefix of messages.
        reads: Whether it is the hint of an input.
        document: The hint as it was, whose metadata may bound a JSON document.

    Raises:
        SignatureError: a hint of a JSON document that contains a type without a JSON form.
    """
    if hint in _SCALARS:
        return _scalar(hint)
    if typing.get_origin(hint) is list and (item := typing.get_args(hint)[0]) in _SCALARS:
        return _list(item)
    # Only such handlers need these modules.
    from penstock._handler.library_adapters import library_adapter

    if (found := library_adapter(hint)) is not None:
        return found
    # A document can be `null`, so an output may be None too.
    return _document(document, where, reads=reads) if type_hints.is_document(type_hints.without_none(hint)[0]) else None


def _scalar(kind: type) -> Adapter:
    tensor = Tensor(datatype=kind)

    def to_array(value: Any, name: str) -> Any:
        if type(value) is float is kind or (type(value) is int is kind and -(2**63) <= value < 2**63):
            # The compiled extension takes plain numbers, bytes and texts.
            return value
        if type(value) is kind and kind in (str, bytes):
            return value
        _check(value, kind, name, kind.__name__)
        return _array(value, tensor, (), name)

    return Adapter(tensor, lambda array, name: array.item(), to_array)


def _list(kind: type) -> Adapter:
    tensor = Tensor(datatype=kind, shape=[-1])
    declared = f"list[{kind.__name__}]"

    def to_array(value: Any, name: str) -> np.ndarray[Any, Any]:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = list(value)
        if not isinstance(value, (list, tuple)):
            raise mismatch(value, name, declared)
        for item in value:
            _check(item, kind, name, declared)
        return _array(value, tensor, (len(value),), name)

    return Adapter(tensor, lambda array, name: array.tolist(), to_array)


def _document(hint: Any, where: str, *, reads: bool) -> Adapter:
    # Only such handlers need msgspec, whose import takes a while.
    from penstock._handler.json_codec import compile_codec

    codec = compile_codec(hint, where, reads=reads)
    tensor = Tensor(datatype=bytes).as_document()

    def to_array(value: Any, name: str) -> np.ndarray[Any, Any]:
        return _array(codec.encode(value, name), tensor, (), name)

    def to_python(array: np.ndarray[Any, Any], name: str) -> Any:
        return codec.decode(array.item(), name)

    return Adapter(tensor, to_python, to_array, Document(codec.schema, codec.example))


def _array(value: Any, tensor: Tensor, shape: tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    # Filled in place: numpy would choose a fixed-width type for text, and cut trailing zero bytes.
    array: np.ndarray[Any, Any] = np.empty(shape, dtype=object if tensor.dtype is None else tensor.dtype)
    try:
        array[...] = value
    except OverflowError:
        raise HandlerError(f"output {name!r}: the handler returned a number beyond {tensor.datatype}") from None
    return array


def _check(value: Any, kind: type, name: str, declared: str) -> None:
    # A bool is an int in Python, but as a number it is more likely a mistake.
    fits = isinstance(value, _ACCEPTED[kind]) and (kind is bool or not isinstance(value, bool))
    if not fits:
        raise mismatch(value, name, declared)


def mismatch(value: Any, name: str, declared: str) -> HandlerError:
    """The error for a returned value of another type than declared."""
    shown = type(value).__name__
    return HandlerError(f"output {name!r}: the handler returned {shown}, it declares {declared}")


def object_array(value: Any) -> np.ndarray[Any, Any]:
    """An array without axes of one object."""
    array: np.ndarray[Any, Any] = np.empty((), dtype=object)
    array[()] = value
    return array
