"""Raw JSON requests, for the option `data: sent`: nested data stays nested, and flat data flat."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock import InvalidInput
from penstock.compat.openinference._request import InferenceRequest, InputTensor, RequestedOutput
from penstock.compat.openinference._tensors import DTYPES, DeclaredTensors
from penstock.integrations import json_text

__all__ = ["parse_request"]

_MAX_AXES = 32
_KINDS = {"B": (bool,), "I": (int,), "U": (int,), "F": (int, float)}


def parse_request(body: bytes, declared: DeclaredTensors | None) -> InferenceRequest:
    """Parses the body of a request.

    Args:
        body: JSON.
        declared: Declared inputs; None skips the check.

    Raises:
        InvalidInput: the body violates the protocol, or its tensors do not match the declared ones.
    """
    try:
        document = json_text.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"request JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("inputs"), list):
        raise InvalidInput("request JSON: expected an object with an array 'inputs'")
    inputs = [_tensor(one, index) for index, one in enumerate(document["inputs"])]
    if len({one.name for one in inputs}) < len(inputs):
        raise InvalidInput("two of 'inputs' have one name")
    if declared is not None:
        types = declared.check_datatypes({one.name: (one.datatype, tuple(one.shape)) for one in inputs})
        for one in inputs:
            one.datatype = types[one.name]
    for one in inputs:
        _check_elements(one)
    outputs = document.get("outputs") or []
    if not isinstance(outputs, list) or any(not isinstance(one, dict) or "name" not in one for one in outputs):
        raise InvalidInput("'outputs' is not an array of objects with a 'name'")
    requested = [RequestedOutput(str(one["name"]), _parameters(one)) for one in outputs]
    return InferenceRequest(
        str(document["id"]) if document.get("id") else None, _parameters(document), inputs, requested
    )


def _tensor(given: Any, index: int) -> InputTensor:
    if not isinstance(given, dict) or not isinstance(name := given.get("name"), str) or not name:
        raise InvalidInput(f"'inputs[{index}]' is not an object with a 'name'")
    for key in ("datatype", "shape", "data"):
        if key not in given:
            raise InvalidInput(f"input '{name}' has no '{key}'")
    datatype, shape, data = given["datatype"], given["shape"], given["data"]
    if datatype not in DTYPES:
        raise InvalidInput(f"input '{name}': unknown datatype {datatype!r}, expected one of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or len(shape) > _MAX_AXES or any(type(one) is not int or one < -1 for one in shape):
        raise InvalidInput(f"input '{name}': its shape is not an array of at most {_MAX_AXES} numbers of 0 or more")
    data = data if isinstance(data, list) else [data]
    return InputTensor(name, datatype, _resolve_shape(shape, _count(data), name), data, _parameters(given))


def _resolve_shape(shape: list[int], count: int, name: str) -> list[int]:
    """Returns the shape, in which one size may be -1: upstream's clients send this, and the data gives the size."""
    known = math.prod(one for one in shape if one != -1)
    if shape.count(-1) == 1 and known and count % known == 0:
        shape = [count // known if one == -1 else one for one in shape]
    if math.prod(shape) != count or -1 in shape:
        raise InvalidInput(f"input '{name}' has {count} elements, which do not fit the shape {shape}")
    return shape


def _flatten(data: list[Any]) -> list[Any]:
    while data and isinstance(data[0], list):
        if not all(isinstance(one, list) for one in data):
            break
        data = [one for inner in data for one in inner]
    return data


def _count(data: list[Any]) -> int:
    return len(_flatten(data))


def _check_elements(tensor: InputTensor) -> None:
    """Rejects elements of other types than the datatype's."""
    name, datatype, flat = tensor.name, tensor.datatype, _flatten(tensor.data)
    allowed = (str,) if datatype == "BYTES" else _KINDS[datatype[0]]
    found = set(map(type, flat))
    if not found <= set(allowed):
        unexpected = sorted(one.__name__ for one in found.difference(allowed))
        raise InvalidInput(f"input '{name}' has {', '.join(unexpected)} where {datatype} is expected")
    if int in allowed and float not in allowed and flat:
        limits = np.iinfo(DTYPES[datatype])
        if min(flat) < limits.min or max(flat) > limits.max:
            raise InvalidInput(f"input '{name}' has a number outside the range of {datatype}")


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    found = given.get("parameters") or {}
    if not isinstance(found, dict):
        raise InvalidInput("'parameters' is not an object")
    return found
