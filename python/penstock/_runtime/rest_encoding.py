"""The client's side of the REST protocol with its binary tensor extension, in numpy.

For tests: the server's side is Rust, so the two check each other.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from penstock._spec import datatypes
from penstock._spec.elements import exact_array
from penstock._spec.tensor import Tensor
from penstock.errors import PenstockError

Array = np.ndarray[Any, Any]


def encode(
    inputs: Mapping[str, Any],
    declared: Mapping[str, Tensor],
    *,
    binary: bool,
    outputs: Iterable[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    request_id: str | None = None,
) -> tuple[bytes, int | None]:
    """A request's body, and the length of its JSON where binary data follows.

    Values take the declared datatype; an array keeps its own, so that a test can send a wrong one.
    """
    heads, tails = [], []
    for name, value in inputs.items():
        array, datatype = as_array(name, value, declared.get(name))
        head: dict[str, Any] = {"name": name, "shape": list(array.shape), "datatype": datatype}
        if binary:
            tails.append(_to_bytes(array, datatype))
            head["parameters"] = {"binary_data_size": len(tails[-1])}
        else:
            head["data"] = _to_json(array, datatype)
        heads.append(head)
    request: dict[str, Any] = {"inputs": heads}
    if request_id is not None:
        request["id"] = request_id
    if outputs is not None:
        request["outputs"] = [{"name": name, "parameters": {"binary_data": binary}} for name in outputs]
    custom = dict(parameters or {})
    if binary:
        custom["binary_data_output"] = True
    if custom:
        request["parameters"] = custom
    text = json.dumps(request).encode()
    return b"".join([text, *tails]), len(text) if binary else None


def decode(body: bytes, header_length: int | None) -> dict[str, Array]:
    """The outputs of an answer, by name. BYTES are object arrays of `bytes`, BF16 are float32.

    Raises:
        PenstockError: the answer does not follow the protocol.
    """
    split = len(body) if header_length is None else header_length
    tail = memoryview(body)[split:]
    arrays = {}
    for output in json.loads(body[:split])["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        shape, datatype = output["shape"], output["datatype"]
        if size is None:
            array = _from_json(output["data"], datatype)
        else:
            array, tail = _from_bytes(bytes(tail[:size]), datatype), tail[size:]
        arrays[output["name"]] = array.reshape(shape)
    if tail:
        raise PenstockError(f"the answer has {len(tail)} bytes after its last output")
    return arrays


def as_array(name: str, value: Any, declared: Tensor | None) -> tuple[Array, str]:
    """A value as the array that is sent, and its datatype on the wire.

    Raises:
        TypeError: an array of a dtype that the protocol does not have.
        ValueError: a value that cannot be converted to the declared datatype.
    """
    if declared is not None and declared.datatype == datatypes.BYTES and not isinstance(value, np.ndarray):
        return _bytes_array(value, declared), datatypes.BYTES
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
    else:
        try:
            array = exact_array(value, None if declared is None else declared.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            datatype = "an array" if declared is None else declared.datatype
            raise ValueError(f"input {name!r} cannot be converted to {datatype}: {error}") from None
    found = datatypes.wire_name(array.dtype)
    if found is None:
        raise TypeError(f"input {name!r} is an array of {array.dtype}, which the protocol does not have")
    # numpy lacks the type, so its array is float32.
    if declared is not None and declared.datatype in datatypes.WIDENED and array.dtype == declared.dtype:
        return array, declared.datatype
    return array, found


def _bytes_array(value: Any, declared: Tensor) -> Array:
    is_text = isinstance(value, (str, bytes))
    if not declared.shape and not is_text and not (isinstance(value, list) and _is_flat_text(value)):
        # One element cannot be a list or dict: it is a document.
        value, is_text = json.dumps(value), True
    if is_text:
        array: Array = np.empty((), dtype=object)
        array[()] = value
        return array
    return np.array(value, dtype=object)


def _is_flat_text(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(item, (str, bytes)) for item in value)


def _to_bytes(array: Array, datatype: str) -> bytes:
    if datatype == datatypes.BYTES:
        elements = [_element(item) for item in array.ravel().tolist()]
        return b"".join(struct.pack("<I", len(element)) + element for element in elements)
    if datatype == "BF16" and array.dtype == np.float32:
        return datatypes.to_bfloat16(array).tobytes()
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _to_json(array: Array, datatype: str) -> list[Any]:
    flat: list[Any] = array.ravel().tolist()
    return [_element(item).decode() for item in flat] if datatype == datatypes.BYTES else [*map(_number, flat)]


def _number(item: Any) -> Any:
    return item if isinstance(item, (bool, int, float)) else float(item)


def _element(item: Any) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()


def _from_json(data: list[Any], datatype: str) -> Array:
    if datatype == datatypes.BYTES:
        return _objects([item.encode() for item in data])
    return np.array(data, dtype=datatypes.ARRAY_DTYPES[datatype])


def _from_bytes(data: bytes, datatype: str) -> Array:
    if datatype == datatypes.BYTES:
        return _objects(_split(data))
    if datatype == "BF16":
        return (np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    dtype = datatypes.ARRAY_DTYPES[datatype]
    return np.frombuffer(data, dtype=dtype.newbyteorder("<")).astype(dtype)


def _split(data: bytes) -> list[bytes]:
    elements, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        if at + length > len(data):
            raise PenstockError(f"an element of {length} bytes runs past the end of its output")
        elements.append(data[at : at + length])
        at += length
    return elements


def _objects(items: list[bytes]) -> Array:
    # Assigned one by one: numpy would make a fixed-width text of equal lengths.
    array: Array = np.empty(len(items), dtype=object)
    array[:] = items
    return array
