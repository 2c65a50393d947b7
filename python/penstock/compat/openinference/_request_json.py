"""Requests in JSON as they were sent: for functions that are to get nested data nested, and flat data flat."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock import InvalidInput
from penstock.compat.openinference._request import InferenceRequest, InputTensor, RequestedOutput
from penstock.compat.openinference._tensors import DTYPES, Declared
from penstock.integrations import json_text

__all__ = ["read"]

_MOST_AXES = 32
_KINDS = {"B": (bool,), "I": (int,), "U": (int,), "F": (int, float)}


def read(body: bytes, declared: Declared | None) -> InferenceRequest:
    """The request of a body.

    Args:
        body: JSON.
        declared: What its tensors have to be; None for anything.

    Raises:
        InvalidInput: it is no request of the protocol, or its tensors are others.
    """
    try:
        told = json_text.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"request JSON: {error}") from None
    if not isinstance(told, dict) or not isinstance(told.get("inputs"), list):
        raise InvalidInput("request JSON: expected an object with an array 'inputs'")
    inputs = [_tensor(one, index) for index, one in enumerate(told["inputs"])]
    if len({one.name for one in inputs}) < len(inputs):
        raise InvalidInput("two of 'inputs' have one name")
    if declared is not None:
        types = declared.of_json({one.name: (one.datatype, tuple(one.shape)) for one in inputs})
        for one in inputs:
            one.datatype = types[one.name]
    for one in inputs:
        _check_elements(one)
    outputs = told.get("outputs") or []
    if not isinstance(outputs, list) or any(not isinstance(one, dict) or "name" not in one for one in outputs):
        raise InvalidInput("'outputs' is no array of objects with a 'name'")
    wanted = [RequestedOutput(str(one["name"]), _parameters(one)) for one in outputs]
    return InferenceRequest(str(told["id"]) if told.get("id") else None, _parameters(told), inputs, wanted)


def _tensor(given: Any, index: int) -> InputTensor:
    if not isinstance(given, dict) or not isinstance(name := given.get("name"), str) or not name:
        raise InvalidInput(f"'inputs[{index}]' is no object with a 'name'")
    for key in ("datatype", "shape", "data"):
        if key not in given:
            raise InvalidInput(f"input '{name}' has no '{key}'")
    datatype, shape, data = given["datatype"], given["shape"], given["data"]
    if datatype not in DTYPES:
        raise InvalidInput(f"input '{name}': unknown datatype {datatype!r}, expected one of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or len(shape) > _MOST_AXES or any(type(one) is not int or one < -1 for one in shape):
        raise InvalidInput(f"input '{name}': its shape is no array of at most {_MOST_AXES} numbers of 0 or more")
    data = data if isinstance(data, list) else [data]
    return InputTensor(name, datatype, _size_filled_in(shape, _count(data), name), data, _parameters(given))


def _size_filled_in(shape: list[int], count: int, name: str) -> list[int]:
    """The shape; as upstream's own callers write it, one size may be -1, which is what the data has."""
    known = math.prod(one for one in shape if one != -1)
    if shape.count(-1) == 1 and known and count % known == 0:
        shape = [count // known if one == -1 else one for one in shape]
    if math.prod(shape) != count or -1 in shape:
        raise InvalidInput(f"input '{name}' has {count} elements, which do not make the shape {shape}")
    return shape


def _flat(data: list[Any]) -> list[Any]:
    while data and isinstance(data[0], list):
        if not all(isinstance(one, list) for one in data):
            break
        data = [one for inner in data for one in inner]
    return data


def _count(data: list[Any]) -> int:
    return len(_flat(data))


def _check_elements(tensor: InputTensor) -> None:
    """Refuses elements that are not of the datatype."""
    name, datatype, flat = tensor.name, tensor.datatype, _flat(tensor.data)
    allowed = (str,) if datatype == "BYTES" else _KINDS[datatype[0]]
    found = set(map(type, flat))
    if not found <= set(allowed):
        odd = sorted(one.__name__ for one in found.difference(allowed))
        raise InvalidInput(f"input '{name}' has {', '.join(odd)} where {datatype} is expected")
    if int in allowed and float not in allowed and flat:
        limits = np.iinfo(DTYPES[datatype])
        if min(flat) < limits.min or max(flat) > limits.max:
            raise InvalidInput(f"input '{name}' has a number that is out of the range of {datatype}")


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    found = given.get("parameters") or {}
    if not isinstance(found, dict):
        raise InvalidInput("'parameters' is no object")
    return found
