"""Arrays that tensors are held as, and what is made of them when somebody looks."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from penstock.compat.kserve.protocol._bytes_elements import Array, as_bytes, framed, objects

__all__ = ["Shown", "as_objects", "byte_size", "kept", "listed", "raw_bytes", "same"]


class Shown(IntEnum):
    """How a tensor that is held as an array looks to a script."""

    JSON = 0
    """`data` is a flat list, made when it is first looked at: numbers as JSON had them, BYTES as `str`."""
    NESTED = 1
    """As JSON, but lists in lists, one level for each axis."""
    LIST = 2
    """`data` is a flat list: numbers as numpy gives them, BYTES as `str`. As of JSON with raw bytes after it."""
    TYPED = 3
    """`data` is a flat list, BYTES as `bytes`. As of gRPC's typed contents."""
    RAW = 4
    """`data` is an empty list, and the raw bytes are there. As of gRPC's raw contents."""
    BINARY = 5
    """`data` is None, and the raw bytes are there. As `set_data_from_numpy` leaves it."""


def kept(tensor: Array, datatype: str) -> Array:
    """A copy of what is given: its owner may write to it, and may do so before the answer is sent."""
    if datatype == "BYTES":
        return _texts(tensor)
    copy: Array = tensor.copy() if tensor.dtype.isnative else tensor.astype(tensor.dtype.newbyteorder("="), order="C")
    return copy


def as_objects(array: Array) -> Array:
    """An array of BYTES whose elements are all `bytes` or `str`."""
    if array.dtype.kind == "O" and all(isinstance(one, (bytes, str)) for one in array.ravel().tolist()):
        return array
    return _texts(array)


def listed(array: Array, datatype: str, shown: Shown) -> list[Any]:
    """What `data` is of an array that is held."""
    array = array if shown is Shown.NESTED else array.ravel()
    if datatype == "BYTES" and shown is not Shown.TYPED:
        array = objects(_lenient(array.ravel().tolist())).reshape(array.shape)
    elif array.dtype.kind == "f" and shown <= Shown.NESTED:
        array = _as_sent(array)
    elements: list[Any] = array.tolist()
    return elements


def raw_bytes(array: Array, datatype: str) -> bytes:
    """The elements as they travel raw."""
    if datatype == "BYTES":
        return framed(as_bytes(array))
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def byte_size(array: Array, datatype: str) -> int:
    """How many bytes `raw_bytes` gives; BYTES have to be `bytes`."""
    if datatype == "BYTES":
        return sum(4 + len(one) for one in array.ravel().tolist())
    return array.nbytes


def same(one: Any, other: Any) -> bool:
    """Whether the elements of two tensors are the same, in the same form."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other)


def _as_sent(array: Array) -> Array:
    """Floats as JSON had them: short ones by their shortest texts, and None for what is no number."""
    if array.dtype == np.float32:
        short = np.array([float(f"{number:.7g}") for number in array.ravel().tolist()])
        for index in np.flatnonzero(short.astype(np.float32) != array.ravel()).tolist():
            # Seven digits are not enough to tell it from its neighbours.
            short[index] = float(str(array.ravel()[index]))
        array = short.reshape(array.shape)
    missing = np.isnan(array)
    if missing.any():
        array = array.astype(object)
        array[missing] = None
    return array


def _texts(array: Array) -> Array:
    """An array of `bytes` of what BYTES may be given as."""
    texts: Array = objects(as_bytes(array)).reshape(array.shape)
    return texts


def _lenient(elements: list[Any]) -> list[Any]:
    """Texts, if all bytes among them are UTF-8; else all stay what they are."""
    try:
        return [one.decode() if isinstance(one, bytes) else one for one in elements]
    except UnicodeDecodeError:
        return elements
