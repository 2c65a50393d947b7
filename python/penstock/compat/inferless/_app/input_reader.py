"""What a caller sends, as the values that `infer` gets."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from penstock import InvalidInput
from penstock.compat.inferless._spec.schema import FAMILIES, Schema, Tensor

__all__ = ["Given", "Reader"]

logger = logging.getLogger("penstock.inferless")

_BITS = {name: int("".join(filter(str.isdigit, name))) for name, family in FAMILIES.items() if family == "int"}
_RANGES = {
    name: (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for name, bits in _BITS.items()
}
_NUMPY: dict[str, Any] = {
    **{name: np.dtype(name.lower()) for name in _BITS},
    **{"BOOL": np.bool_, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "BF16": np.float32},
}
_NEEDS = {"bool": "true or false", "int": "an integer", "float": "a number", "text": "a string"}


class Given(NamedTuple):
    """One tensor of a request."""

    name: str
    data: Any
    """Nested lists, a flat one, or one value."""
    datatype: str | None = None
    """As the caller said; None where it said nothing, and the declared one counts."""
    shape: tuple[int, ...] | None = None
    """None where it follows from the data."""


class Reader:
    """Reads requests by a schema.

    Args:
        schema: What the app takes.
        strict: Whether integers out of a type's range are refused.
        as_numpy: Whether values are numpy's.
    """

    def __init__(self, schema: Schema, *, strict: bool = False, as_numpy: bool = False) -> None:
        self._schema, self._strict, self._as_numpy = schema, strict, as_numpy
        self._warned: set[str] = set()
        # What is plain: one element, as it is declared. Integers have a range, and other elements none.
        scalars = [] if as_numpy else [one for one in schema.inputs if one.is_scalar]
        self._plain = {
            one.name: (one.datatype, _EXACT[FAMILIES[one.datatype]], *_RANGES.get(one.datatype, (0, -1)))
            for one in scalars
        }
        self._required = {one.name for one in schema.inputs if one.required}

    def plain(self, listed: list[Any]) -> dict[str, Any] | None:
        """The values of a body's tensors, if each is one element of the very type that is declared, as most are.

        None says nothing of them: `one` reads all there are, and says what is wrong with them.
        """
        found: dict[str, Any] = {}
        try:
            for one in listed:
                name, data, shape = one["name"], one["data"], one["shape"]
                datatype, kind, low, high = self._plain[name]
                if type(data) is not list or len(data) != 1 or len(shape) != 1 or type(shape[0]) is not int:
                    return None
                value = data[0]
                if one["datatype"] != datatype or shape[0] != 1 or type(value) is not kind or name in found:
                    return None
                if kind is int and not low <= value <= high:
                    return None
                found[name] = value
        except (KeyError, TypeError):
            return None
        return found if self._required <= found.keys() else None

    def one(self, given: Iterable[Given]) -> dict[str, Any]:
        """The values of a request, by name.

        Raises:
            InvalidInput: it is not what the schema says; the message names the input and what is expected.
        """
        found: dict[str, Any] = {}
        for one in given:
            tensor = self._declared(one, found)
            shape, flat = self._elements(tensor, one)
            found[one.name] = self._shaped(tensor, flat, self._fitting(tensor, shape, len(flat)))
        self._check_all_there(found)
        return found

    def rows(self, given: Iterable[Given]) -> tuple[list[dict[str, Any]], bool]:
        """The values of each row of a request, where requests share calls; and whether it has an axis of rows.

        Raises:
            InvalidInput: as for `one`.
        """
        found: dict[str, list[Any]] = {}
        has_axis = False
        for one in given:
            tensor = self._declared(one, found)
            shape, flat = self._elements(tensor, one)
            inner = tensor.shape[1:] if len(tensor.shape) > 1 and tensor.shape[0] == 1 else tensor.shape
            declared = Tensor(tensor.name, tensor.datatype, inner, tensor.required)
            if len(shape) == len(inner) + 1:
                has_axis = True
                size = math.prod(shape[1:])
                dims = self._fitting(declared, shape[1:], size)
                parts = [flat[at * size : (at + 1) * size] for at in range(shape[0])]
                found[one.name] = [self._shaped(declared, part, dims) for part in parts]
            else:
                dims = self._fitting(declared, shape, len(flat))
                found[one.name] = [self._shaped(declared, flat, dims)]
        self._check_all_there(found)
        counts = {name: len(values) for name, values in found.items()}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"'{name}' has {count}" for name, count in counts.items())
            raise InvalidInput(f"the inputs must have the same number of rows: {told}")
        count = next(iter(counts.values()), 1)
        if count == 0:
            raise InvalidInput("the inputs have no rows, expected 1 or more")
        return [{name: values[at] for name, values in found.items()} for at in range(count)], has_axis

    def _declared(self, one: Given, found: Mapping[str, Any]) -> Tensor:
        tensor = self._schema.tensor(one.name)
        if tensor is None:
            known = ", ".join(f"'{each.name}'" for each in self._schema.inputs) or "none"
            raise InvalidInput(f"unexpected input '{one.name}', expected {known}")
        if one.name in found:
            raise InvalidInput(f"input '{one.name}' is given twice")
        return tensor

    def _check_all_there(self, found: Mapping[str, Any]) -> None:
        for tensor in self._schema.inputs:
            if tensor.required and tensor.name not in found:
                raise InvalidInput(f"input '{tensor.name}' is missing, expected {_form(tensor)}")

    def _elements(self, tensor: Tensor, one: Given) -> tuple[tuple[int, ...], list[Any]]:
        """The shape of a tensor, and its elements in a row."""
        flat: list[Any] = []
        _flatten(one.data, flat)
        shape = _shape_of(one.data) if one.shape is None else one.shape
        if math.prod(shape) != len(flat):
            raise InvalidInput(
                f"input '{one.name}' has {len(flat)} elements in 'data', shape {list(shape)} expects {math.prod(shape)}"
            )
        self._check_family(tensor, one)
        return shape, self._typed(tensor, flat)

    def _check_family(self, tensor: Tensor, one: Given) -> None:
        if one.datatype is None:
            return
        word = str(one.datatype).upper()
        family = FAMILIES.get("BYTES" if word == "STRING" else word)
        if family is None:
            raise InvalidInput(
                f"input '{one.name}' has the unknown datatype '{one.datatype}', expected {tensor.datatype}"
            )
        wanted = FAMILIES[tensor.datatype]
        # A client of Inferless' own sends booleans as INT32.
        if family != wanted and not (wanted == "bool" and family == "int"):
            raise InvalidInput(f"input '{one.name}' has datatype {word}, expected {tensor.datatype}")

    def _typed(self, tensor: Tensor, flat: list[Any]) -> list[Any]:
        family = FAMILIES[tensor.datatype]
        convert = _CONVERT[family]
        try:
            values: list[Any] = [convert(one) for one in flat]
        except (TypeError, ValueError, OverflowError) as error:
            shown = str(error) if isinstance(error, _NoValueError) else "a string that is not UTF-8"
            raise InvalidInput(f"input '{tensor.name}' has {shown}, {tensor.datatype} takes {_NEEDS[family]}") from None
        if family == "int":
            self._check_range(tensor, values)
        return values

    def _check_range(self, tensor: Tensor, values: list[int]) -> None:
        low, high = _RANGES[tensor.datatype]
        wrong = next((one for one in values if not low <= one <= high), None)
        if wrong is None:
            return
        text = f"input '{tensor.name}' has {wrong}, {tensor.datatype} takes integers from {low} to {high}"
        if self._strict or self._as_numpy:
            raise InvalidInput(text)
        if tensor.name not in self._warned:
            self._warned.add(tensor.name)
            logger.warning("%s; it is taken as it is (said once; the option strict refuses it)", text)

    @staticmethod
    def _fitting(tensor: Tensor, shape: tuple[int, ...], count: int) -> tuple[int, ...]:
        """A shape as it is declared: axes of 1 that lead too many are left out."""
        declared = tensor.shape
        if tensor.is_scalar and count == 1:
            return (1,)
        while len(shape) > len(declared) and shape[0] == 1:
            shape = shape[1:]
        if not shape and declared == (-1,):
            shape = (1,)
        if len(shape) != len(declared) or any(
            want not in (-1, have) for want, have in zip(declared, shape, strict=True)
        ):
            expected = "1 element" if tensor.is_scalar else f"shape {list(declared)}"
            raise InvalidInput(f"input '{tensor.name}' has shape {list(shape)}, expected {expected}")
        return shape

    def _shaped(self, tensor: Tensor, flat: list[Any], shape: tuple[int, ...]) -> Any:
        if self._as_numpy and FAMILIES[tensor.datatype] != "text":
            array = np.array(flat, _NUMPY[tensor.datatype]).reshape(shape)
            return array[0] if tensor.is_scalar else array
        if tensor.is_scalar:
            return flat[0]
        return _nested(flat, shape)


def _form(tensor: Tensor) -> str:
    return f"{tensor.datatype} of shape {list(tensor.shape)}"


def _flatten(data: Any, into: list[Any]) -> None:
    if isinstance(data, (list, tuple)):
        for one in data:
            _flatten(one, into)
    else:
        into.append(data)


def _shape_of(data: Any) -> tuple[int, ...]:
    """The shape of lists in lists, by the first of each."""
    if not isinstance(data, (list, tuple)):
        return (1,)
    shape = []
    while isinstance(data, (list, tuple)):
        shape.append(len(data))
        data = data[0] if data else None
    return tuple(shape)


def _nested(flat: list[Any], shape: tuple[int, ...]) -> list[Any]:
    for size in reversed(shape[1:]):
        flat = [flat[at : at + size] for at in range(0, len(flat), size)] if size else [[] for _ in range(shape[0])]
    return flat


class _NoValueError(ValueError):
    """A value is not of the declared kind."""


def _shown(value: Any) -> str:
    text = (
        repr(value) if not isinstance(value, (dict, list)) else f"an {'object' if isinstance(value, dict) else 'list'}"
    )
    return text if len(text) <= 60 else text[:57] + "..."


def _bool(value: Any) -> bool:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise _NoValueError(_shown(value))


def _int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise _NoValueError(_shown(value))


def _float(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise _NoValueError(_shown(value))


def _str(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    raise _NoValueError(_shown(value))


_EXACT = {"bool": bool, "int": int, "float": float, "text": str}
_CONVERT = {"bool": _bool, "int": _int, "float": _float, "text": _str}
