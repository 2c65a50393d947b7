"""`Adapter`: conversion between plain Python values and arrays, one per type hint, chosen at load.

Handlers that take and return arrays have no adapters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock._spec.definition import Document
from penstock._spec.tensor import Tensor
from penstock.errors import HandlerError

SCALARS: tuple[type, ...] = (bool, int, float, str, bytes)
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


def scalar_adapter(kind: type) -> Adapter:
    """The adapter of one of `SCALARS`."""
    tensor = Tensor(datatype=kind)

    def to_array(value: Any, name: str) -> Any:
        if type(value) is float is kind or (type(value) is int is kind and -(2**63) <= value < 2**63):
            # The compiled extension takes plain numbers, bytes and texts.
            return value
        if type(value) is kind and kind in (str, bytes):
            return value
        _check(value, kind, name, kind.__name__)
        return filled_array(value, tensor, (), name)

    return Adapter(tensor, lambda array, name: array.item(), to_array)


def list_adapter(kind: type) -> Adapter:
    """The adapter of a list of one of `SCALARS`."""
    tensor = Tensor(datatype=kind, shape=[-1])
    declared = f"list[{kind.__name__}]"

    def to_array(value: Any, name: str) -> np.ndarray[Any, Any]:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = list(value)
        if not isinstance(value, (list, tuple)):
            raise mismatch(value, name, declared)
        for item in value:
            _check(item, kind, name, declared)
        return filled_array(value, tensor, (len(value),), name)

    return Adapter(tensor, lambda array, name: array.tolist(), to_array)


def filled_array(value: Any, tensor: Tensor, shape: tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    """An array of a tensor's dtype and this shape with the value; the name is for messages."""
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
