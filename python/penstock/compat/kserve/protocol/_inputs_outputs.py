"""Inputs of a request, outputs of a response, and requested outputs."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol._bytes_elements import Array
from penstock.compat.kserve.protocol._rest_body import leaves, listed
from penstock.compat.kserve.protocol._tensor import InferTensor, Parameters
from penstock.compat.kserve.utils.numpy_codec import to_np_dtype

__all__ = ["InferInput", "InferOutput", "RequestedOutput"]


class InferInput(InferTensor):
    """One input of a request.

    Args:
        name: The name on the wire.
        shape: The length of each axis.
        datatype: The protocol's name of the element type, "FP32" for example.
        data: A list, nested or flat, or an array. None, if `set_data_from_numpy` is called later.
        parameters: Custom parameters.
    """

    def as_numpy(self) -> Array:
        """Returns the input as an array of its datatype and shape; BYTES are objects.

        Numbers of gRPC's raw contents are a read-only view, all else is a copy.

        Raises:
            InvalidInput: the datatype is unknown, or the elements do not fill the shape.
        """
        if self._array is None and to_np_dtype(self._datatype) is None:
            raise InvalidInput("invalid datatype None in the input")
        return super().as_numpy()

    def as_string(self) -> list[str]:
        """Returns the elements of a BYTES input as text, row by row.

        Raises:
            InvalidInput: the datatype is not BYTES, or an element is not UTF-8.
        """
        if self._datatype != "BYTES":
            raise InvalidInput(f"invalid datatype {self._datatype} in the input")
        elements = self.as_numpy().ravel().tolist() if self._raw_data is not None else leaves(listed(self))
        try:
            return [one.decode() if isinstance(one, bytes) else str(one) for one in elements]
        except UnicodeDecodeError as error:
            raise InvalidInput(f"an element of input '{self._name}' is not UTF-8: {error.reason}") from None

    def _element_error(self, error: Exception) -> Exception:
        return InvalidInput(f"input '{self._name}': {error}")


class InferOutput(InferTensor):
    """One output of a response.

    Args:
        name: The name on the wire.
        shape: The length of each axis.
        datatype: The protocol's name of the element type, "FP32" for example.
        data: A list, nested or flat, or an array. None, if `set_data_from_numpy` is called later.
        parameters: Custom parameters.
    """


class RequestedOutput:
    """A requested output.

    Args:
        name: The name on the wire.
        parameters: Custom parameters, and `binary_data`.
    """

    def __init__(self, name: str, parameters: Parameters = None) -> None:
        self._name = name
        self._parameters = parameters

    @property
    def name(self) -> str:
        """The output's name."""
        return self._name

    @property
    def parameters(self) -> Parameters:
        """The parameters, or None."""
        return self._parameters

    @parameters.setter
    def parameters(self, params: Parameters) -> None:
        self._parameters = params

    @property
    def binary_data(self) -> Any:
        """True if the output is requested as raw bytes; None if the request does not specify it."""
        return (self._parameters or {}).get("binary_data")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RequestedOutput):
            return False
        return (self._name, self._parameters) == (other._name, other._parameters)

    __hash__ = None  # type: ignore[assignment] # it can change

    def __repr__(self) -> str:
        return f"RequestedOutput(name={self._name}, parameters={self._parameters})"
