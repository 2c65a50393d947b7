"""Responses: conversion of the values that `infer` returns to tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock import HandlerError
from penstock.compat.inferless._spec.schema import FAMILIES, Schema

__all__ = ["stack_rows", "to_array", "to_event_value", "to_tensors"]

_EMPTY: dict[str, Any] = {"bool": np.bool_, "int": np.int64, "float": np.float64, "text": object}


def _to_mapping(returned: Any) -> Mapping[str, Any]:
    """Returns the outputs by name: a dict, or the fields of an object.

    Raises:
        HandlerError: the value is neither.
    """
    if isinstance(returned, Mapping):
        return returned
    fields = getattr(type(returned), "model_fields", None)
    if isinstance(fields, dict):
        # A pydantic object: fields that are None are left out.
        declared = {name: getattr(returned, name, None) for name in fields}
        extra = getattr(returned, "model_extra", None) or {}
        return {name: value for name, value in {**declared, **extra}.items() if value is not None}
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        return {one.name: getattr(returned, one.name) for one in dataclasses.fields(returned)}
    raise HandlerError(f"infer returned a {type(returned).__name__}, expected a dict of outputs by name")


def to_tensors(returned: Any, schema: Schema) -> dict[str, np.ndarray[Any, Any]]:
    """Converts the result of `infer` to tensors, in its order.

    Raises:
        HandlerError: a value has no tensor form; the message names the key and an alternative.
    """
    if type(returned) is dict and not schema.outputs:
        # Fast path: all values are scalars.
        try:
            return {_check_key(key): _CONVERTERS[type(value)](value) for key, value in returned.items()}
        except (KeyError, OverflowError, UnicodeError):
            pass
    values = _to_mapping(returned)
    is_object = values is not returned
    types = {one.name: one.datatype for one in schema.outputs}
    tensors = {}
    for key, value in values.items():
        if not isinstance(key, str):
            raise HandlerError(f"infer returned the key {key!r}, expected a str")
        tensors[key] = to_array(key, value, types.get(key))
    for one in schema.outputs:
        if one.required and one.name not in tensors and not is_object:
            raise HandlerError(f"required output '{one.name}' not found in what infer returned")
    return tensors


def _check_key(key: Any) -> str:
    if type(key) is not str:
        raise KeyError(key)
    return key


def _text_array(value: str) -> np.ndarray[Any, Any]:
    array = np.empty(1, object)
    array[0] = value.encode()
    return array


_CONVERTERS: dict[type, Callable[[Any], np.ndarray[Any, Any]]] = {
    str: _text_array,
    bool: lambda value: np.array([value], np.bool_),
    int: lambda value: np.array([value], np.int64),
    float: lambda value: np.array([value], np.float64),
}
"""Conversions of scalars, by exact type."""


def to_array(key: str, value: Any, datatype: str | None = None) -> np.ndarray[Any, Any]:
    """Converts one output to a tensor.

    Args:
        key: Name of the output.
        value: A scalar, a list, a list of lists, or an array.
        datatype: The declared datatype, which an empty list gets.

    Raises:
        HandlerError: the value has no tensor form.
    """
    if isinstance(value, (str, bytes)):
        return _texts(key, [value])
    if isinstance(value, bool):
        return np.array([value], np.bool_)
    if isinstance(value, int):
        return _integers(key, [value])
    if isinstance(value, float):
        return np.array([value], np.float64)
    if isinstance(value, np.generic):
        return _array(key, np.array([value]))
    if isinstance(value, np.ndarray):
        return _array(key, value)
    if isinstance(value, list):
        return _list(key, value, datatype)
    if not isinstance(value, (Mapping, tuple)) and callable(getattr(value, "tolist", None)):
        # An array of another library, such as a torch tensor.
        return _foreign(key, value)
    raise HandlerError(_unsupported(key, value))


def stack_rows(rows: Sequence[Mapping[str, np.ndarray[Any, Any]]]) -> dict[str, np.ndarray[Any, Any]]:
    """Stacks the outputs of a request's rows along a row axis.

    Raises:
        HandlerError: the rows differ in keys or shapes.
    """
    names = list(rows[0])
    for row in rows:
        if list(row) != names and set(row) != set(names):
            raise HandlerError(f"the rows of a request have different keys: {sorted(names)} and {sorted(row)}")
    try:
        return {name: np.stack([row[name] for row in rows]) for name in names}
    except ValueError:
        shapes = {name: sorted({row[name].shape for row in rows}) for name in names}
        name = next(one for one, found in shapes.items() if len(found) > 1)
        raise HandlerError(f"output '{name}' has different shapes in the rows of a request: {shapes[name]}") from None


def to_event_value(array: np.ndarray[Any, Any]) -> Any:
    """Returns a tensor for an event of a stream: a scalar, or a flat list."""
    values = [one.decode() if isinstance(one, bytes) else one for one in array.reshape(-1).tolist()]
    return values[0] if array.shape == (1,) else values


def _unsupported(key: str, value: Any) -> str:
    what = "None" if value is None else f"a {type(value).__name__}"
    return (
        f"output '{key}' is {what}, expected str, int, float, bool, or lists of these; "
        f"return json.dumps({key}) to send anything else as text"
    )


def _list(key: str, values: list[Any], datatype: str | None) -> np.ndarray[Any, Any]:
    if not values:
        if datatype is None:
            raise HandlerError(f"output '{key}' is an empty list, of which no type can be inferred")
        return np.empty((0,), _EMPTY[FAMILIES[datatype]])
    shape = _shape(key, values)
    flat: list[Any] = []
    _flatten(key, values, flat)
    if any(isinstance(one, (str, bytes)) for one in flat):
        return _texts(key, flat).reshape(shape)
    if all(isinstance(one, (bool, np.bool_)) for one in flat):
        return np.array(flat, np.bool_).reshape(shape)
    if all(isinstance(one, int) for one in flat):
        return _integers(key, [int(one) for one in flat]).reshape(shape)
    try:
        return _array(key, np.array(flat)).reshape(shape)
    except (ValueError, OverflowError):
        raise HandlerError(_unsupported(key, values)) from None


def _shape(key: str, values: Any) -> tuple[int, ...]:
    """Returns the shape of nested lists, which may contain arrays."""
    if isinstance(values, np.ndarray):
        shape: tuple[int, ...] = values.shape
        return shape
    if not isinstance(values, list):
        return ()
    inner = [_shape(key, one) for one in values]
    if any(one != inner[0] for one in inner[1:]):
        raise HandlerError(
            f"output '{key}' has lists of different lengths, which no tensor can hold; return json.dumps({key})"
        )
    return (len(values), *(inner[0] if inner else ()))


def _flatten(key: str, values: Any, into: list[Any]) -> None:
    for one in values:
        if isinstance(one, (list, np.ndarray)):
            _flatten(key, one, into)
        elif isinstance(one, (str, bytes, bool, int, float, np.generic)):
            into.append(one)
        elif callable(getattr(one, "tolist", None)) and not isinstance(one, Mapping):
            inner = one.tolist()
            _flatten(key, inner if isinstance(inner, list) else [inner], into)
        else:
            raise HandlerError(_unsupported(key, one).replace(" is ", " has ", 1))


def _texts(key: str, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    found = np.empty(len(values), object)
    for at, one in enumerate(values):
        if isinstance(one, str):
            # Lone surrogates, from text decoded with `surrogateescape`, have no UTF-8 form.
            found[at] = one.encode(errors="replace")
        elif isinstance(one, bytes):
            try:
                one.decode()
            except UnicodeDecodeError:
                raise HandlerError(
                    f"output '{key}' has bytes that are not UTF-8; return base64.b64encode({key}).decode()"
                ) from None
            found[at] = one
        else:
            raise HandlerError(f"output '{key}' mixes str and {type(one).__name__}; return json.dumps({key})")
    return found


def _integers(key: str, values: list[int]) -> np.ndarray[Any, Any]:
    low, high = min(values), max(values)
    if low >= -(2**63) and high < 2**63:
        return np.array(values, np.int64)
    if low >= 0 and high < 2**64:
        return np.array(values, np.uint64)
    raise HandlerError(f"output '{key}': {high if high >= 2**63 else low} does not fit INT64 or UINT64")


def _array(key: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind in "US":
        texts: np.ndarray[Any, Any] = _texts(key, array.reshape(-1).tolist()).reshape(array.shape)
        return texts
    if array.dtype.kind == "O":
        return _list(key, array.tolist(), None) if array.ndim else to_array(key, array.item())
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise HandlerError(f"output '{key}' is an array of {array.dtype}, which no tensor can hold")
    shaped: np.ndarray[Any, Any] = array if array.ndim else array.reshape(1)
    return shaped


def _foreign(key: str, value: Any) -> np.ndarray[Any, Any]:
    values = value.tolist()
    array: np.ndarray[Any, Any] = to_array(key, values) if not isinstance(values, list) else _list(key, values, None)
    # Its `tolist` returns 64-bit floats.
    if "float32" in str(getattr(value, "dtype", "")):
        array = array.astype(np.float32)
    return array
