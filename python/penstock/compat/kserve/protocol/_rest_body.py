"""HTTP bodies of requests and responses: JSON, followed by raw bytes for binary tensors."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol import _json
from penstock.compat.kserve.protocol._arrays import listed as as_list
from penstock.compat.kserve.protocol._parameters import to_http_parameters
from penstock.compat.kserve.protocol._tensor import InferTensor

__all__ = ["flat", "head", "leaves", "listed", "refuse_fp16", "split", "with_size"]

AnyTensor = TypeVar("AnyTensor", bound=InferTensor)


def head(tensor: InferTensor) -> dict[str, Any]:
    """Returns a tensor's JSON object without its elements."""
    message: dict[str, Any] = {"name": tensor.name, "shape": tensor.shape, "datatype": tensor.datatype}
    parameters = dict(to_http_parameters(tensor.parameters)) if tensor.parameters else {}
    # Set by `with_size` if raw bytes follow, and only then.
    parameters.pop("binary_data_size", None)
    if parameters:
        message["parameters"] = parameters
    return message


def with_size(message: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """Returns a tensor's JSON object whose elements follow as raw bytes."""
    return {**message, "parameters": {**message.get("parameters", {}), "binary_data_size": len(raw)}}


def listed(tensor: InferTensor) -> Any:
    """Returns a tensor's elements for JSON: lists unchanged, nested or not; arrays row by row."""
    if tensor._array is not None:
        return as_list(tensor._array, tensor.datatype, tensor._shown)
    value = tensor._value
    if tensor._raw is None and not isinstance(value, np.ndarray):
        return value
    return flat(tensor)


def flat(tensor: InferTensor) -> list[Any]:
    """Returns a tensor's elements for JSON, row by row."""
    copy = type(tensor)(tensor.name, tensor.shape, tensor.datatype)
    array = tensor._outgoing()
    copy.set_data_from_numpy(array, binary_data=False)
    elements: list[Any] = copy.data
    return elements


def leaves(values: Any) -> list[Any]:
    """Returns the elements of nested lists in order."""
    if not any(isinstance(value, (list, tuple)) for value in values):
        return list(values)
    return [leaf for value in values for leaf in (leaves(value) if isinstance(value, (list, tuple)) else [value])]


def refuse_fp16(tensor: InferTensor, verb: str) -> None:
    """Refuses FP16 in JSON, which the later dialect does not support."""
    if tensor.datatype == "FP16":
        kind = "input" if type(tensor).__name__ == "InferInput" else "output"
        raise InvalidInput(
            f"{verb} FP16 data via JSON is not supported. Please use the binary data format for {kind} {tensor.name}"
        )


def split(
    kind: type[AnyTensor], body: bytes, json_length: int, field: str, model_name: str | None
) -> tuple[dict[str, Any], list[AnyTensor], list[bool]]:
    """Returns a body's JSON object, its tensors, and for each tensor whether its elements were in the JSON.

    Raises:
        InvalidInput: the JSON is not an object of the protocol, or a tensor has no elements.
    """
    message = _json.loads_request(body[:json_length])
    if not isinstance(message, dict) or not isinstance(message.get(field), list):
        raise InvalidInput(f'Expected "{field}" to be a list')
    if model_name is None:
        model_name = message.get("model_name")
    tensors, in_json, at = [], [], json_length
    for one in message[field]:
        tensor = _tensor(kind, one)
        size, data = (tensor.parameters or {}).get("binary_data_size"), one.get("data")
        in_json.append(data is not None)
        if data is not None:
            tensor.data = data
        elif isinstance(size, int) and size >= 0:
            end = at + size
            tensor._raw_data = body[at:end]
            at = end
            tensor._hold_parsed()
        else:
            raise InvalidInput(f"'data' field is missing for {field[:-1]} '{tensor.name}' for model '{model_name}'")
        tensors.append(tensor)
    return message, tensors, in_json


def _tensor(kind: type[AnyTensor], message: Any) -> AnyTensor:
    try:
        tensor = kind(message["name"], message["shape"], message["datatype"], parameters=message.get("parameters"))
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidInput(f"Unrecognized request format: a tensor needs name, shape and datatype: {error}") from None
    if not isinstance(tensor.parameters or {}, dict):
        raise InvalidInput(f"Unrecognized request format: the parameters of '{tensor.name}' are not an object")
    return tensor
