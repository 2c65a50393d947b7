"""Encoding of tensors for each server: bodies of requests, and values of responses.

"json", "bin" and "grpc" are the Open Inference Protocol's; other servers encode the same tensors
differently.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_JSON = "Content-Type: application/json"
_OCTETS = "Content-Type: application/octet-stream"
_DATATYPES = {"float32": "FP32", "float16": "FP16", "uint8": "UINT8"}


@dataclass(frozen=True)
class Message:
    """A body with its headers, in the form of the loader."""

    body: bytes
    headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sent:
    """An input tensor: an array, or texts for BYTES."""

    shape: tuple[int, ...]
    values: Array | tuple[str, ...]

    @property
    def datatype(self) -> str:
        """The protocol's name."""
        return _DATATYPES[self.values.dtype.name] if isinstance(self.values, np.ndarray) else "BYTES"

    @property
    def raw(self) -> bytes:
        """The protocol's binary layout."""
        if isinstance(self.values, np.ndarray):
            return self.values.tobytes()
        encoded = [text.encode() for text in self.values]
        return b"".join(struct.pack("<I", len(text)) + text for text in encoded)

    @property
    def json(self) -> str:
        """A flat JSON array; floats in the shortest text that reads back as the same."""
        if isinstance(self.values, np.ndarray):
            return f"[{','.join(str(value) for value in self.values.ravel())}]"
        return json.dumps(list(self.values))


def request(dialect: str, model: str, sent: Sent) -> Message:
    """The request for one tensor "x"."""
    shape, raw = list(sent.shape), sent.raw
    described: dict[str, Any] = {"name": "x", "shape": shape, "datatype": sent.datatype}
    match dialect:
        case "json":
            body = f'{{"inputs":[{{"name":"x","shape":{shape},"datatype":"{sent.datatype}","data":{sent.json}}}]}}'
            return Message(body.encode(), (_JSON,))
        case "bin":
            described["parameters"] = {"binary_data_size": len(raw)}
            wanted = {"name": "y", "parameters": {"binary_data": True}}
            head = json.dumps({"inputs": [described], "outputs": [wanted]}).encode()
            return Message(head + raw, (f"Inference-Header-Content-Length: {len(head)}", _OCTETS))
        case "grpc":
            return Message(_field(1, model.encode()) + _field(5, _tensor("x", sent.datatype, shape)) + _field(7, raw))
        case "raw":
            return Message(raw, (_OCTETS,))
        case "msgpack":
            return Message(_msgpack(sent), ("Content-Type: application/msgpack",))
        case "b64":
            described["b64"] = base64.b64encode(raw).decode()
            return Message(json.dumps({"inputs": [described]}).encode(), (_JSON,))
        case "rows":
            return Message(f'{{"x":[{sent.json}]}}'.encode(), (_JSON,))
        case "records":
            rows = [dict(zip("abcd", row, strict=True)) for row in np.asarray(sent.values).tolist()]
            return Message(json.dumps({"rows": rows}).encode(), (_JSON,))
    raise ValueError(f"unknown dialect {dialect!r}")


def answer(dialect: str, model: str, values: Array) -> bytes:
    """The response with one tensor "y" in a format of the protocol, for the bare echo."""
    shape, raw = list(values.shape), values.tobytes()
    head = f'{{"model_name":"{model}","model_version":"1","outputs":[{{"name":"y","datatype":"FP32","shape":{shape}'
    match dialect:
        case "json":
            return f'{head},"data":{Sent(values.shape, values).json}}}]}}'.encode()
        case "bin":
            return f'{head},"parameters":{{"binary_data_size":{len(raw)}}}}}]}}'.encode() + raw
        case "grpc":
            return _field(1, model.encode()) + _field(5, _tensor("y", "FP32", shape)) + _field(6, raw)
    raise ValueError(f"unknown dialect {dialect!r}")


def values_of(dialect: str, body: bytes) -> Array:
    """The FP32 values of a response, flat.

    Raises:
        ValueError: the response has no values.
        LookupError: the response lacks a member.
    """
    if dialect == "grpc":
        return _grpc_values(body)
    if dialect == "rows":
        return np.array(json.loads(body), np.float32).ravel()
    if dialect == "records":
        return np.array([row["total"] for row in json.loads(body)], np.float32)
    if dialect == "raw" or not body.startswith(b"{"):
        # MessagePack's binary is the last item of the map; whole floats from the end are the tensor and a bit more.
        return np.frombuffer(body[len(body) % 4 :], np.float32)
    head, end = json.JSONDecoder().raw_decode(body.decode("latin-1"))
    output = head["outputs"][0]
    if "data" in output:
        return np.array(output["data"], np.float32).ravel()
    return np.frombuffer(body[end:], np.float32)


def _varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _tensor(name: str, datatype: str, shape: list[int]) -> bytes:
    packed = b"".join(_varint(size) for size in shape)
    return _field(1, name.encode()) + _field(2, datatype.encode()) + _field(3, packed)


def _msgpack(sent: Sent) -> bytes:
    text = b"\xa8datatype" + bytes([0xA0 | len(sent.datatype)]) + sent.datatype.encode()
    shape = b"\xa5shape" + bytes([0x90 | len(sent.shape)])
    sizes = b"".join(b"\xcd" + struct.pack(">H", size) for size in sent.shape)
    return b"\x83" + text + shape + sizes + b"\xa4data\xc6" + struct.pack(">I", len(sent.raw)) + sent.raw


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a protobuf message; others are skipped."""
    position = 0

    def varint() -> int:
        nonlocal position
        number = shift = 0
        while True:
            byte = message[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while position < len(message):
        key = varint()
        match key & 7:
            case 0:
                varint()
            case 1:
                position += 8
            case 2:
                length = varint()
                yield key >> 3, message[position : position + length]
                position += length
            case 5:
                position += 4
            case wire_type:
                raise ValueError(f"wire type {wire_type} in an answer")


def _grpc_values(body: bytes) -> Array:
    contents = None
    for number, data in _fields(body):
        if number == 6:  # raw_output_contents
            return np.frombuffer(data, np.float32)
        if number == 5:  # outputs, whose contents are field 5, and their fp32_contents field 6
            for inner, typed in _fields(data):
                if inner == 5:
                    contents = dict(_fields(typed)).get(6)
    if contents is None:
        raise ValueError("no output in the answer")
    return np.frombuffer(contents, np.float32)
