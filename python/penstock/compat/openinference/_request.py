"""`InferenceRequest`: the argument `request` of a handler."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from penstock import Request
    from penstock.compat.openinference._settings import Options

__all__ = ["InferenceRequest", "InputTensor", "RequestedOutput", "decode_text"]


@dataclass
class InputTensor:
    """Input tensor of a request."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any]
    """Elements in JSON's types: flat in row-major order, or nested by the shape with the option `data: nested`.

    BYTES are `str` if they are UTF-8, else `bytes`."""
    parameters: dict[str, Any] = field(default_factory=dict)

    def dict(self) -> dict[str, Any]:
        """Returns the tensor as a JSON object."""
        return {
            "name": self.name,
            "shape": list(self.shape),
            "datatype": self.datatype,
            "data": self.data,
            "parameters": self.parameters,
        }


@dataclass
class RequestedOutput:
    """An output that a request names."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)

    def dict(self) -> dict[str, Any]:
        """Returns the output as a JSON object."""
        return {"name": self.name, "parameters": self.parameters}


@dataclass
class InferenceRequest:
    """Inference request."""

    id: str | None
    parameters: dict[str, Any]
    inputs: list[InputTensor]
    outputs: list[RequestedOutput]
    """Requested outputs; empty for all."""

    def dict(self) -> dict[str, Any]:
        """Returns the request as a JSON object."""
        return {
            "id": self.id,
            "parameters": self.parameters,
            "inputs": [tensor.dict() for tensor in self.inputs],
            "outputs": [tensor.dict() for tensor in self.outputs],
        }

    def json(self) -> str:
        """Returns the request as JSON. Elements that are not text become base64."""
        return json.dumps(self.dict(), default=_encode_bytes)

    @classmethod
    def of(
        cls, request: Request, tensors: Mapping[str, npt.NDArray[Any]], datatypes: Mapping[str, str], options: Options
    ) -> InferenceRequest:
        """Builds the handler's argument from a validated request."""
        base64_bytes = options.bytes_mode == "digitalhub" and request.protocol == "grpc"
        nested, parameters = options.data == "nested", request.tensor_parameters
        inputs = [
            InputTensor(
                name,
                datatypes[name],
                [*array.shape],
                _to_elements(array, nested=nested, base64_bytes=base64_bytes),
                parameters.get(name) or {},
            )
            for name, array in tensors.items()
        ]
        outputs = [RequestedOutput(name) for name in request.outputs or ()]
        return cls(request.id or None, request.parameters, inputs, outputs)


def decode_text(element: Any) -> str | bytes:
    """Returns the text of UTF-8 bytes. Other bytes are returned unchanged."""
    try:
        return str(element, "utf-8") if isinstance(element, bytes) else str(element)
    except UnicodeDecodeError:
        return bytes(element)


def _to_elements(array: npt.NDArray[Any], *, nested: bool, base64_bytes: bool) -> list[Any]:
    if array.dtype == object:
        convert = (lambda tensor: base64.b64encode(tensor).decode()) if base64_bytes else decode_text
        flat: list[Any] = [convert(tensor) for tensor in array.ravel().tolist()]
        return _nest(flat, array) if nested else flat
    found: list[Any] = array.tolist() if nested and array.ndim else array.ravel().tolist()
    return found


def _nest(flat: list[Any], array: npt.NDArray[np.object_]) -> list[Any]:
    nested = array.copy()
    nested.ravel()[:] = flat
    found: list[Any] = nested.tolist()
    return found


def _encode_bytes(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not JSON serializable")
