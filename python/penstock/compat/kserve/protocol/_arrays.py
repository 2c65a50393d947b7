"""Arrays of tensors, and their conversion to lists and bytes on first access."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from penstock.compat.kserve.protocol._bytes_elements import Array, as_bytes, length_prefixed, objects

__all__ = ["Shown", "as_objects", "byte_size", "copied", "listed", "raw_bytes", "same"]


class Shown(IntEnum):
    """The form in which a script sees a tensor that is held as an array."""

    JSON = 0
    """`data` is a flat list, created on first access: numbers as in the JSON text, BYTES as `str`."""
    NESTED = 1
    """As `JSON`, with one nesting level per axis."""
    LIST = 2
    """`data` is a flat list: numbers as numpy's `tolist` returns them, BYTES as `str`. For JSON with raw bytes."""
    TYPED = 3
    """`data` is a flat list, BYTES as `bytes`. For gRPC's typed contents."""
    RAW = 4
    """`data` is an empty list, and the raw bytes are set. For gRPC's raw contents."""
    BINARY = 5
    """`data` is None, and the raw bytes are set. As after `set_data_from_numpy`."""


def copied(tensor: Array, datatype: str) -> Array:
    """Returns a copy, since the script may write to its array before the response is sent."""
    if datatype == "BYTES":
        return _as_bytes_array(tensor)
    copy: Array = tensor.copy() if tensor.dtype.isnative else tensor.astype(tensor.dtype.newbyteorder("="), order="C")
    return copy


def as_objects(array: Array) -> Array:
    """Returns an array of BYTES whose elements are all `bytes` or `str`."""
    if array.dtype.kind == "O" and all(isinstance(one, (bytes, str)) for one in array.ravel().tolist()):
        return array
    return _as_bytes_array(array)


def listed(array: Array, datatype: str, shown: Shown) -> list[Any]:
    """Returns the `data` list of an array."""
    array = array if shown is Shown.NESTED else array.ravel()
    if datatype == "BYTES" and shown is not Shown.TYPED:
        array = objects(_decoded_if_utf8(array.ravel().tolist())).reshape(array.shape)
    elif array.dtype.kind == "f" and shown <= Shown.NESTED:
        array = _as_in_json(array)
    elements: list[Any] = array.tolist()
    return elements


def raw_bytes(array: Array, datatype: str) -> bytes:
    """Returns the elements' raw bytes: little-endian, row by row."""
    if datatype == "BYTES":
        return length_prefixed(as_bytes(array))
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def byte_size(array: Array, datatype: str) -> int:
    """Returns the length of `raw_bytes`; BYTES have to be `bytes`."""
    if datatype == "BYTES":
        return sum(4 + len(one) for one in array.ravel().tolist())
    return array.nbytes


def same(one: Any, other: Any) -> bool:
    """Returns whether two tensors have the same elements in the same form."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other)


def _as_in_json(array: Array) -> Array:
    """Returns floats as in the JSON text: float32 by their shortest texts, and None for NaN."""
    if array.dtype == np.float32:
        short = np.array([float(f"{number:.7g}") for number in array.ravel().tolist()])
        for index in np.flatnonzero(short.astype(np.float32) != array.ravel()).tolist():
            # Seven digits do not distinguish it from its neighbours.
            short[index] = float(str(array.ravel()[index]))
        array = short.reshape(array.shape)
    missing = np.isnan(array)
    if missing.any():
        array = array.astype(object)
        array[missing] = None
    return array


def _as_bytes_array(array: Array) -> Array:
    """Returns an array of `bytes` from the values that BYTES allow."""
    texts: Array = objects(as_bytes(array)).reshape(array.shape)
    return texts


def _decoded_if_utf8(elements: list[Any]) -> list[Any]:
    """Returns text if all elements are UTF-8, else the elements unchanged."""
    try:
        return [one.decode() if isinstance(one, bytes) else one for one in elements]
    except UnicodeDecodeError:
        return elements
