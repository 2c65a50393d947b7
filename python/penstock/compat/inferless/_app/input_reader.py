"""Conversion of a request's tensors to the values that `infer` gets."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from penstock import InvalidInput
from penstock.compat.inferless._request import InputTensor
from penstock.compat.inferless._spec.schema import FAMILIES, Schema, Tensor

__all__ = ["InputReader"]

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


class InputReader:
    """Converts requests by a schema.

    Args:
        schema: The app's schema.
        strict: Whether to reject integers out of their datatype's range.
        as_numpy: Whether to return numpy values.
    """

    def __init__(self, schema: Schema, *, strict: bool = False, as_numpy: bool = False) -> None:
        self._schema, self._strict, self._as_numpy = schema, strict, as_numpy
        self._warned: set[str] = set()
        # Scalars of the fast path, with their exact Python type and, for integers, range.
        scalars = [] if as_numpy else [one for one in schema.inputs if one.is_scalar]
        self._plain_inputs = {
            one.name: (one.datatype, _EXACT[FAMILIES[one.datatype]], *_RANGES.get(one.datatype, (0, -1)))
            for one in scalars
        }
        self._required = {one.name for one in schema.inputs if one.required}

    def read_plain(self, inputs: list[Any]) -> dict[str, Any] | None:
        """Fast path: returns the values of a body's tensors if each is one element of exactly its declared type.

        Returns None for other tensors, valid or not: `read` converts and checks these.
        """
        found: dict[str, Any] = {}
        try:
            for one in inputs:
                name, data, shape = one["name"], one["data"], one["shape"]
                datatype, kind, low, high = self._plain_inputs[name]
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

    def read(self, tensors: Iterable[InputTensor]) -> dict[str, Any]:
        """Returns the values of a request, by input.

        Raises:
            InvalidInput: a tensor does not match the schema; the message names it.
        """
        found: dict[str, Any] = {}
        for one in tensors:
            tensor = self._declared(one, found)
            shape, flat = self._elements(tensor, one)
            found[one.name] = self._reshape(tensor, flat, self._fit_shape(tensor, shape, len(flat)))
        self._check_required(found)
        return found

    def read_rows(self, tensors: Iterable[InputTensor]) -> tuple[list[dict[str, Any]], bool]:
        """Returns the values of each row of a batched app's request, and whether its tensors have a row axis.

        Raises:
            InvalidInput: a tensor does not match the schema, or the numbers of rows differ.
        """
        found: dict[str, list[Any]] = {}
        has_axis = False
        for one in tensors:
            tensor = self._declared(one, found)
            shape, flat = self._elements(tensor, one)
            inner = tensor.shape[1:] if len(tensor.shape) > 1 and tensor.shape[0] == 1 else tensor.shape
            declared = Tensor(tensor.name, tensor.datatype, inner, tensor.required)
            if len(shape) == len(inner) + 1:
                has_axis = True
                size = math.prod(shape[1:])
                dims = self._fit_shape(declared, shape[1:], size)
                parts = [flat[at * size : (at + 1) * size] for at in range(shape[0])]
                found[one.name] = [self._reshape(declared, part, dims) for part in parts]
            else:
                dims = self._fit_shape(declared, shape, len(flat))
                found[one.name] = [self._reshape(declared, flat, dims)]
        self._check_required(found)
        counts = {name: len(values) for name, values in found.items()}
        if len(set(counts.values())) > 1:
            text = ", ".join(f"'{name}' has {count}" for name, count in counts.items())
            raise InvalidInput(f"the inputs must have the same number of rows: {text}")
        count = next(iter(counts.values()), 1)
        if count == 0:
            raise InvalidInput("the inputs have no rows, expected 1 or more")
        return [{name: values[at] for name, values in found.items()} for at in range(count)], has_axis

    def _declared(self, one: InputTensor, found: Mapping[str, Any]) -> Tensor:
        tensor = self._schema.tensor(one.name)
        if tensor is None:
            known = ", ".join(f"'{each.name}'" for each in self._schema.inputs) or "none"
            raise InvalidInput(f"unexpected input '{one.name}', expected {known}")
        if one.name in found:
            raise InvalidInput(f"input '{one.name}' is given twice")
        return tensor

    def _check_required(self, found: Mapping[str, Any]) -> None:
        for tensor in self._schema.inputs:
            if tensor.required and tensor.name not in found:
                raise InvalidInput(f"input '{tensor.name}' is missing, expected {_describe(tensor)}")

    def _elements(self, tensor: Tensor, one: InputTensor) -> tuple[tuple[int, ...], list[Any]]:
        """Returns the shape of a tensor and its elements as a flat list."""
        flat: list[Any] = []
        _flatten(one.data, flat)
        shape = _shape_of(one.data) if one.shape is None else one.shape
        if math.prod(shape) != len(flat):
            raise InvalidInput(
                f"input '{one.name}' has {len(flat)} elements in 'data', shape {list(shape)} expects {math.prod(shape)}"
            )
        self._check_family(tensor, one)
        return shape, self._typed(tensor, flat)

    def _check_family(self, tensor: Tensor, one: InputTensor) -> None:
        if one.datatype is None:
            return
        word = str(one.datatype).upper()
        family = FAMILIES.get("BYTES" if word == "STRING" else word)
        if family is None:
            raise InvalidInput(
                f"input '{one.name}' has the unknown datatype '{one.datatype}', expected {tensor.datatype}"
            )
        wanted = FAMILIES[tensor.datatype]
        # Inferless's own client sends booleans as INT32.
        if family != wanted and not (wanted == "bool" and family == "int"):
            raise InvalidInput(f"input '{one.name}' has datatype {word}, expected {tensor.datatype}")

    def _typed(self, tensor: Tensor, flat: list[Any]) -> list[Any]:
        family = FAMILIES[tensor.datatype]
        convert = _CONVERT[family]
        try:
            values: list[Any] = [convert(one) for one in flat]
        except (TypeError, ValueError, OverflowError) as error:
            shown = str(error) if isinstance(error, _WrongTypeError) else "a string that is not UTF-8"
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
            logger.warning("%s; the value is passed unchanged (logged once; the option strict rejects it)", text)

    @staticmethod
    def _fit_shape(tensor: Tensor, shape: tuple[int, ...], count: int) -> tuple[int, ...]:
        """Returns a shape with the declared number of axes, without surplus leading axes of length 1."""
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

    def _reshape(self, tensor: Tensor, flat: list[Any], shape: tuple[int, ...]) -> Any:
        if self._as_numpy and FAMILIES[tensor.datatype] != "text":
            array = np.array(flat, _NUMPY[tensor.datatype]).reshape(shape)
            return array[0] if tensor.is_scalar else array
        if tensor.is_scalar:
            return flat[0]
        return _nested(flat, shape)


def _describe(tensor: Tensor) -> str:
    return f"{tensor.datatype} of shape {list(tensor.shape)}"


def _flatten(data: Any, into: list[Any]) -> None:
    if isinstance(data, (list, tuple)):
        for one in data:
            _flatten(one, into)
    else:
        into.append(data)


def _shape_of(data: Any) -> tuple[int, ...]:
    """Returns the shape of nested lists, from the first element of each."""
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


class _WrongTypeError(ValueError):
    """A value of another type than the declared one."""


def _format_value(value: Any) -> str:
    text = (
        repr(value) if not isinstance(value, (dict, list)) else f"an {'object' if isinstance(value, dict) else 'list'}"
    )
    return text if len(text) <= 60 else text[:57] + "..."


def _bool(value: Any) -> bool:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise _WrongTypeError(_format_value(value))


def _int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise _WrongTypeError(_format_value(value))


def _float(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise _WrongTypeError(_format_value(value))


def _str(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    raise _WrongTypeError(_format_value(value))


_EXACT = {"bool": bool, "int": int, "float": float, "text": str}
_CONVERT = {"bool": _bool, "int": _int, "float": _float, "text": _str}
