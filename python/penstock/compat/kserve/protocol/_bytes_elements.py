"""Elements of BYTES tensors: length-prefixed, or as objects of an array."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from penstock.compat.kserve.errors import InferenceError, InvalidInput

__all__ = [
    "Array",
    "as_bytes",
    "as_text",
    "deserialize_bytes_tensor",
    "length_prefixed",
    "objects",
    "serialize_byte_tensor",
]

Array = np.ndarray[Any, Any]


def serialize_byte_tensor(input_tensor: Array) -> Array:
    """Returns a tensor's elements length-prefixed, row by row.

    Args:
        input_tensor: Objects (bytes unchanged, anything else as its text in UTF-8), numpy bytes or numpy text.

    Returns:
        An object array of shape (), whose `.item()` is the bytes; of shape (0,) for an empty tensor.

    Raises:
        InferenceError: the array has another dtype.
    """
    if input_tensor.size == 0:
        return np.empty([0], dtype=object)
    if input_tensor.dtype.kind not in "OSU":
        raise InferenceError("cannot serialize bytes tensor: invalid datatype")
    result = np.empty((), dtype=object)
    result[()] = length_prefixed(as_bytes(input_tensor))
    return result


def deserialize_bytes_tensor(encoded_tensor: bytes) -> Array:
    """Returns the elements that `serialize_byte_tensor` wrote, as an object array with one axis.

    Raises:
        InvalidInput: the last element's length or content is truncated.
    """
    elements: list[bytes] = []
    at, end = 0, len(encoded_tensor)
    while at < end:
        if at + 4 > end:
            raise InvalidInput(f"a BYTES tensor of {end} bytes ends within the length of element {len(elements)}")
        (length,) = struct.unpack_from("<I", encoded_tensor, at)
        at += 4 + length
        if at > end:
            raise InvalidInput(
                f"element {len(elements)} of a BYTES tensor has {length} bytes, {at - end} more than there are"
            )
        elements.append(bytes(encoded_tensor[at - length : at]))
    return objects(elements)


def length_prefixed(elements: list[bytes]) -> bytes:
    """Returns the elements with a four-byte length before each."""
    return b"".join(part for element in elements for part in (len(element).to_bytes(4, "little"), element))


def as_bytes(array: Array) -> list[bytes]:
    """Returns a tensor's elements, row by row: bytes unchanged, anything else as its text."""
    return [one if isinstance(one, bytes) else str(one).encode() for one in _flat(array)]


def as_text(array: Array) -> list[str]:
    """Returns a tensor's elements, row by row, as text for JSON.

    Raises:
        InferenceError: an element is bytes that are not UTF-8.
    """
    try:
        return [one.decode() if isinstance(one, bytes) else str(one) for one in _flat(array)]
    except UnicodeDecodeError as error:
        raise InferenceError(
            f'Failed to encode "{error.object!r}" using UTF-8. Please use binary_data=True, if you want to pass a byte '
            "array."
        ) from None


def objects(elements: list[Any]) -> Array:
    """Returns a one-axis object array of the elements; `np.array` would look into lists and create numpy text."""
    array: Array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array


def _flat(array: Array) -> list[Any]:
    # Times become objects first: numpy's text of them differs.
    flat: list[Any] = (array.astype(object) if array.dtype.kind in "mM" else array).ravel().tolist()
    return flat
