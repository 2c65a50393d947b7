"""What a handler gets as `request`."""

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

__all__ = ["InferenceRequest", "InputTensor", "RequestedOutput", "text_of"]


@dataclass
class InputTensor:
    """One tensor of a request."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any]
    """Its elements as JSON has them: flat, row by row; nested by the shape with the option `data: nested`. BYTES are
    `str` where they are UTF-8, else `bytes`."""
    parameters: dict[str, Any] = field(default_factory=dict)

    def dict(self) -> dict[str, Any]:
        """The same as an object of JSON."""
        return {
            "name": self.name,
            "shape": list(self.shape),
            "datatype": self.datatype,
            "data": self.data,
            "parameters": self.parameters,
        }


@dataclass
class RequestedOutput:
    """An output that a request asks for."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)

    def dict(self) -> dict[str, Any]:
        """The same as an object of JSON."""
        return {"name": self.name, "parameters": self.parameters}


@dataclass
class InferenceRequest:
    """A request for inference."""

    id: str | None
    parameters: dict[str, Any]
    inputs: list[InputTensor]
    outputs: list[RequestedOutput]
    """The outputs that are asked for; empty for all."""

    def dict(self) -> dict[str, Any]:
        """The same as an object of JSON."""
        return {
            "id": self.id,
            "parameters": self.parameters,
            "inputs": [one.dict() for one in self.inputs],
            "outputs": [one.dict() for one in self.outputs],
        }

    def json(self) -> str:
        """The same as JSON; elements that are no text are base64."""
        return json.dumps(self.dict(), default=_encoded)

    @classmethod
    def of(
        cls, request: Request, tensors: Mapping[str, npt.NDArray[Any]], datatypes: Mapping[str, str], options: Options
    ) -> InferenceRequest:
        """What a handler gets of a request whose tensors have been checked."""
        encoded = options.bytes_mode == "digitalhub" and request.protocol == "grpc"
        nested, parameters = options.data == "nested", request.tensor_parameters
        inputs = [
            InputTensor(
                name,
                datatypes[name],
                [*array.shape],
                _elements(array, nested=nested, encoded=encoded),
                parameters.get(name) or {},
            )
            for name, array in tensors.items()
        ]
        outputs = [RequestedOutput(name) for name in request.outputs or ()]
        return cls(request.id or None, request.parameters, inputs, outputs)


def text_of(element: Any) -> str | bytes:
    """The text of bytes, or the bytes if they are none."""
    try:
        return str(element, "utf-8") if isinstance(element, bytes) else str(element)
    except UnicodeDecodeError:
        return bytes(element)


def _elements(array: npt.NDArray[Any], *, nested: bool, encoded: bool) -> list[Any]:
    if array.dtype == object:
        read = (lambda one: base64.b64encode(one).decode()) if encoded else text_of
        flat: list[Any] = [read(one) for one in array.ravel().tolist()]
        return _nested(flat, array) if nested else flat
    found: list[Any] = array.tolist() if nested and array.ndim else array.ravel().tolist()
    return found


def _nested(flat: list[Any], array: npt.NDArray[np.object_]) -> list[Any]:
    again = array.copy()
    again.ravel()[:] = flat
    found: list[Any] = again.tolist()
    return found


def _encoded(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not of JSON")
