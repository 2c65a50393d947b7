"""`InferTensor`: the named tensor that inputs and outputs derive from."""

from __future__ import annotations

from typing import Any, TypeVar, Union

import numpy as np

from penstock.compat.kserve.errors import InferenceError, InvalidInput
from penstock.compat.kserve.protocol._arrays import Shown, as_objects, byte_size, copied, listed, raw_bytes, same
from penstock.compat.kserve.protocol._bytes_elements import Array, as_text, deserialize_bytes_tensor
from penstock.compat.kserve.utils.numpy_codec import from_np_dtype, to_np_dtype

__all__ = ["InferTensor", "Parameters"]

Parameters = Union["dict[str, Any]", None]
"""Custom parameters by name: plain values, or gRPC's `InferParameter`."""


AnyTensor = TypeVar("AnyTensor", bound="InferTensor")

_RAW, _TYPED = Shown.RAW, Shown.TYPED


class InferTensor:
    """A named tensor in the form in which it came: a list, an array, or raw bytes.

    Conversions happen on first access: lists from arrays, and raw bytes from arrays.
    """

    __slots__ = ("_array", "_datatype", "_name", "_parameters", "_raw", "_shape", "_shown", "_value")

    _UNKNOWN = "invalid datatype in the input"

    def __init__(
        self, name: str, shape: list[int], datatype: str, data: Any = None, parameters: Parameters = None
    ) -> None:
        self._name = name
        self._shape: Any = shape
        self._datatype = datatype.upper()
        self._parameters = parameters
        self._value = data
        self._raw: Any = None
        self._array: Array | None = None
        self._shown = Shown.LIST

    @classmethod
    def _holding(
        cls: type[AnyTensor],
        name: str,
        datatype: str,
        array: Array,
        parameters: Parameters = None,
        shown: Shown = Shown.LIST,
    ) -> AnyTensor:
        """Returns a tensor of an array that is not written to elsewhere, without conversion or copy.

        Args:
            name: The name on the wire.
            datatype: The datatype in upper case.
            array: An array of the datatype's numpy type; BYTES are objects.
            parameters: Custom parameters.
            shown: The form in which a script sees it.
        """
        self = cls.__new__(cls)
        # Separate assignments: this runs per received tensor, and tuple assignment is slower.
        self._name = name
        self._datatype = datatype
        self._parameters = parameters
        self._shape = None
        self._raw = None
        self._array = array
        self._shown = shown
        self._value = [] if shown is _RAW else None
        return self

    def _hold(self, array: Array, shown: Shown) -> None:
        self._array, self._shown = array, shown
        self._value = [] if shown is _RAW else None

    def _hold_parsed(self) -> None:
        """Replaces raw bytes by an array, in the form of a list."""
        array = self.as_numpy()
        self._raw = None
        self._hold(array, Shown.LIST)
        if self._parameters:
            self._parameters.pop("binary_data_size", None)

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self._name

    @property
    def datatype(self) -> str:
        """The protocol's name of the element type, in upper case."""
        return self._datatype

    @property
    def shape(self) -> list[int]:
        """The length of each axis."""
        if self._shape is None and self._array is not None:
            self._shape = list(self._array.shape)
        shape: list[int] = self._shape
        return shape

    @shape.setter
    def shape(self, shape: list[int]) -> None:
        self._shape = shape

    def set_shape(self, shape: list[int]) -> None:
        """Sets the shape, as assigning `shape` does."""
        self._shape = shape

    @property
    def parameters(self) -> Parameters:
        """The tensor's custom parameters, or None."""
        return self._parameters

    @parameters.setter
    def parameters(self, params: Parameters) -> None:
        self._parameters = params

    @property
    def data(self) -> Any:
        """The elements as a list, or the array that was set; empty or None if raw bytes are set instead."""
        if self._array is not None and self._shown < _RAW:
            # The script may change the list, so from now on the list is authoritative.
            self._shape, self._value, self._array = self.shape, listed(self._array, self._datatype, self._shown), None
        return self._value

    @data.setter
    def data(self, data: Any) -> None:
        self._shape, raw = self.shape, self._raw_data if data is None else None
        self._value, self._array, self._raw = data, None, raw

    @property
    def _data(self) -> Any:
        return self.data

    @_data.setter
    def _data(self, data: Any) -> None:
        self.data = data

    @property
    def _raw_data(self) -> Any:
        """The elements' bytes if set: little-endian, row by row; BYTES with their lengths."""
        if self._raw is None and self._array is not None and self._shown >= _RAW:
            self._raw = raw_bytes(self._array, self._datatype)
        return self._raw

    @_raw_data.setter
    def _raw_data(self, raw: Any) -> None:
        if self._array is not None and self._shown < _RAW:
            self._value = self.data
        else:
            self._shape = self.shape
        self._array, self._raw = None, raw

    def as_numpy(self) -> Array:
        """Returns the tensor as an array of its datatype and shape; BYTES are objects.

        Numbers of raw bytes are a read-only view, all else is a copy.

        Raises:
            InvalidInput: the datatype is unknown, or the elements do not fill the shape.
        """
        array = self._array
        if array is not None:
            if self._shown >= _RAW and self._datatype != "BYTES":
                view: Array = self._shaped(array).view()
                view.flags.writeable = False
                return view
            if self._datatype != "BYTES" or self._shown >= _TYPED:
                copy: Array = self._shaped(array).copy()
                return copy
        dtype = to_np_dtype(self._datatype)
        if dtype is None:
            raise InvalidInput(self._UNKNOWN)
        raw = self._raw_data
        if raw is not None:
            return self._shaped(self._from_bytes(raw, dtype))
        return self._shaped(self._from_value(self.data, dtype))

    def _outgoing(self) -> Array:
        """Returns the tensor as an array to be sent, not to be written to; an array is not copied."""
        value = self._value
        if isinstance(value, np.ndarray):
            self._check(value)
            return as_objects(value) if self._datatype == "BYTES" else value
        if self._array is not None:
            return self._shaped(self._array)
        if value is None and self._raw is None:
            raise InvalidInput(f"'data' field is missing for output '{self._name}'")
        array = self.as_numpy()
        return as_objects(array) if self._datatype == "BYTES" else array

    def set_data_from_numpy(self, tensor: Array, binary_data: bool = True) -> None:
        """Sets the elements from an array, which is copied.

        Args:
            tensor: An array of the tensor's datatype and shape.
            binary_data: Whether they travel as raw bytes; False for a list in JSON.

        Raises:
            InferenceError: `tensor` is not an array, its datatype or shape differs, or BYTES for JSON are not UTF-8.
        """
        if not isinstance(tensor, np.ndarray):
            raise InferenceError("input_tensor must be a numpy array")
        self._check(tensor)
        self._raw = None
        if binary_data:
            array = copied(tensor, self._datatype)
            self._hold(array, Shown.BINARY)
            self._set_parameter("binary_data_size", byte_size(array, self._datatype))
        else:
            if self._parameters:
                self._parameters.pop("binary_data_size", None)
            if self._datatype == "BYTES":
                self._value, self._array = as_text(tensor), None
            else:
                self._hold(copied(tensor, self._datatype), Shown.LIST)

    def to_dict(self) -> dict[str, Any]:
        """Name, shape, datatype, data and parameters."""
        return {
            "name": self._name,
            "shape": self.shape,
            "datatype": self._datatype,
            "data": self.data,
            "parameters": self._parameters,
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return False
        own = (self._name, self._datatype, list(self.shape or ()), self._parameters, self._raw_data)
        others = (other._name, other._datatype, list(other.shape or ()), other._parameters, other._raw_data)
        return own == others and same(self.data, other.data)

    __hash__ = None  # type: ignore[assignment] # it can change

    def __repr__(self) -> str:
        return (
            f'"name": "{self._name}","shape": {self.shape},"datatype": "{self._datatype}","data": {self.data},'
            f'"parameters": {self._parameters}'
        )

    def _check(self, tensor: Array) -> None:
        datatype = from_np_dtype(tensor.dtype)
        if datatype != self._datatype:
            raise InferenceError(f"got unexpected datatype {datatype} from numpy array, expected {self._datatype}")
        if tuple(self.shape) != tensor.shape:
            raise InferenceError(
                f"got unexpected numpy array shape [{str(tensor.shape)[1:-1]}], expected [{str(self.shape)[1:-1]}]"
            )

    def _shaped(self, array: Array) -> Array:
        try:
            if self._shape is None or tuple(self._shape) == array.shape:
                return array
            shaped: Array = array.reshape(self._shape)
            return shaped
        except (TypeError, ValueError) as error:
            raise self._element_error(error) from None

    def _from_bytes(self, raw: bytes, dtype: type) -> Array:
        if self._datatype == "BYTES":
            return deserialize_bytes_tensor(raw)
        try:
            return np.frombuffer(raw, dtype=np.dtype(dtype).newbyteorder("<"))
        except ValueError as error:
            raise self._element_error(error) from None

    def _from_value(self, value: Any, dtype: type) -> Array:
        if self._datatype == "BYTES" and isinstance(value, np.ndarray) and value.dtype.kind in "mM":
            value = value.astype(object)
        try:
            return np.array(value, dtype=dtype)
        except (OverflowError, TypeError, ValueError) as error:
            raise self._element_error(error) from None

    def _element_error(self, error: Exception) -> Exception:
        """Returns the exception for elements that do not make the tensor."""
        return error

    def _set_parameter(self, name: str, value: int) -> None:
        if self._parameters is None:
            self._parameters = {name: value}
        elif hasattr(self._parameters, "get_or_create"):
            self._parameters.get_or_create(name).int64_param = value
        else:
            self._parameters[name] = value
