"""What `infer` returns, as the tensors of an answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock import HandlerError
from penstock.compat.inferless._spec.schema import FAMILIES, Schema

__all__ = ["array_of", "arrays_of", "joined_rows", "mapping_of", "plain"]

_EMPTY: dict[str, Any] = {"bool": np.bool_, "int": np.int64, "float": np.float64, "text": object}


def mapping_of(answer: Any) -> Mapping[str, Any]:
    """An answer as names with values: a dict, or the fields of an object.

    Raises:
        HandlerError: it is neither.
    """
    if isinstance(answer, Mapping):
        return answer
    fields = getattr(type(answer), "model_fields", None)
    if isinstance(fields, dict):
        # One of pydantic's. A field that may be None, and is, is left out.
        told = {name: getattr(answer, name, None) for name in fields}
        extra = getattr(answer, "model_extra", None) or {}
        return {name: value for name, value in {**told, **extra}.items() if value is not None}
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        return {one.name: getattr(answer, one.name) for one in dataclasses.fields(answer)}
    raise HandlerError(f"infer returned a {type(answer).__name__}, expected a dict of outputs by name")


def arrays_of(answer: Any, schema: Schema) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of an answer, in its order.

    Raises:
        HandlerError: a value is none that a tensor can hold; the message names the key and what helps.
    """
    if type(answer) is dict and not schema.outputs:
        try:
            return {_text(key): _OF[type(value)](value) for key, value in answer.items()}
        except (KeyError, OverflowError, UnicodeError):
            # Not all of them are plain values.
            pass
    told = mapping_of(answer)
    is_object = told is not answer
    types = {one.name: one.datatype for one in schema.outputs}
    found = {}
    for key, value in told.items():
        if not isinstance(key, str):
            raise HandlerError(f"infer returned the key {key!r}, expected a str")
        found[key] = array_of(key, value, types.get(key))
    for one in schema.outputs:
        if one.required and one.name not in found and not is_object:
            raise HandlerError(f"required output '{one.name}' not found in what infer returned")
    return found


def _text(key: Any) -> str:
    if type(key) is not str:
        raise KeyError(key)
    return key


def _of_text(value: str) -> np.ndarray[Any, Any]:
    found = np.empty(1, object)
    found[0] = value.encode()
    return found


_OF: dict[type, Callable[[Any], np.ndarray[Any, Any]]] = {
    str: _of_text,
    bool: lambda value: np.array([value], np.bool_),
    int: lambda value: np.array([value], np.int64),
    float: lambda value: np.array([value], np.float64),
}
"""What plain values are, of which most answers are made."""


def array_of(key: str, value: Any, datatype: str | None = None) -> np.ndarray[Any, Any]:
    """The tensor of one value.

    Args:
        key: Its name.
        value: A value, a list of them, a list of lists, or an array.
        datatype: As it is declared; it counts for an empty list.

    Raises:
        HandlerError: it is none that a tensor can hold.
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
        # A tensor of torch, say. Its own numbers say nothing of its type: 32 bits are the rule there.
        return _foreign(key, value)
    raise HandlerError(_no_tensor(key, value))


def joined_rows(rows: Sequence[Mapping[str, np.ndarray[Any, Any]]]) -> dict[str, np.ndarray[Any, Any]]:
    """The answers of a request's rows, as one answer with an axis of rows.

    Raises:
        HandlerError: they differ in their keys or shapes.
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


def plain(array: np.ndarray[Any, Any]) -> Any:
    """A tensor as JSON has it in an event of a stream: a value, or a flat list."""
    values = [one.decode() if isinstance(one, bytes) else one for one in array.reshape(-1).tolist()]
    return values[0] if array.shape == (1,) else values


def _no_tensor(key: str, value: Any) -> str:
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
        raise HandlerError(_no_tensor(key, values)) from None


def _shape(key: str, values: Any) -> tuple[int, ...]:
    """The shape of lists in lists; arrays in them count as such."""
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
            raise HandlerError(_no_tensor(key, one).replace(" is ", " has ", 1))


def _texts(key: str, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    found = np.empty(len(values), object)
    for at, one in enumerate(values):
        if isinstance(one, str):
            # Text that an app read wrongly may hold halves of characters, which UTF-8 has not.
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
    raise HandlerError(f"output '{key}' has {high if high >= 2**63 else low}, which 64 bits do not hold")


def _array(key: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind in "US":
        texts: np.ndarray[Any, Any] = _texts(key, array.reshape(-1).tolist()).reshape(array.shape)
        return texts
    if array.dtype.kind == "O":
        return _list(key, array.tolist(), None) if array.ndim else array_of(key, array.item())
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise HandlerError(f"output '{key}' is an array of {array.dtype}, which no tensor can hold")
    shaped: np.ndarray[Any, Any] = array if array.ndim else array.reshape(1)
    return shaped


def _foreign(key: str, value: Any) -> np.ndarray[Any, Any]:
    told = value.tolist()
    found: np.ndarray[Any, Any] = array_of(key, told) if not isinstance(told, list) else _list(key, told, None)
    if "float32" in str(getattr(value, "dtype", "")):
        found = found.astype(np.float32)
    return found
