"""Protocol-independent request and response: tensors are the bytes that a handler sees."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}

SAMPLES: dict[str, list[Any]] = {
    "BOOL": [True, False, True],
    **{f"UINT{bits}": [0, 1, 2**bits - 1] for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": [-(2 ** (bits - 1)), -1, 2 ** (bits - 1) - 1] for bits in (8, 16, 32, 64)},
    "FP16": [0.5, -65504.0, 6e-8],
    "BF16": [0.5, -3.0, 3.3895313892515355e38],
    "FP32": [0.1, -3.4028234663852886e38, 1e-45],
    "FP64": [0.1, -1.7976931348623157e308, 5e-324],
    "BYTES": ["héllo", "", '\x00\n"\\'],
}
"""Values of each datatype, including its bounds."""


@dataclass(frozen=True)
class Tensor:
    """A named tensor; `raw` is little-endian, and framed with lengths for BYTES."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    raw: bytes

    def values(self) -> list[Any]:
        """The elements as Python values; `bytes` for BYTES."""
        if self.datatype == "BYTES":
            return split(self.raw)
        array = np.frombuffer(self.raw, DTYPES[self.datatype])
        if self.datatype in ("FP16", "BF16"):
            array = array.astype(np.float64)
        return list(array.tolist())


@dataclass(frozen=True)
class Call:
    """An inference request."""

    model: str
    inputs: tuple[Tensor, ...]
    version: str = ""
    id: str = ""
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    outputs: tuple[str, ...] | None = None

    def with_input(self, index: int, **changes: Any) -> Call:
        """A copy with other fields in one input."""
        inputs = list(self.inputs)
        inputs[index] = replace(inputs[index], **changes)
        return replace(self, inputs=tuple(inputs))


@dataclass(frozen=True)
class InferResponse:
    """A response or an error. `status` is an HTTP status; gRPC codes are mapped to it."""

    status: int
    message: str = ""
    model: str = ""
    version: str = ""
    id: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[Tensor, ...] = ()

    def output(self, name: str) -> Tensor:
        """An output by its name."""
        return next(output for output in self.outputs if output.name == name)


def pack(datatype: str, values: Any) -> bytes:
    """The raw bytes of elements."""
    if datatype == "BYTES":
        return b"".join(frame(value if isinstance(value, bytes) else value.encode()) for value in values)
    if "INT" in datatype:
        return np.array(values, DTYPES[datatype]).tobytes()
    with np.errstate(over="ignore"):
        return np.array(values, bool if datatype == "BOOL" else np.float64).astype(DTYPES[datatype]).tobytes()


def frame(element: bytes) -> bytes:
    """An element of BYTES behind its length."""
    return struct.pack("<I", len(element)) + element


def split(raw: bytes) -> list[bytes]:
    """The elements of framed BYTES."""
    elements, at = [], 0
    while at < len(raw):
        (length,) = struct.unpack_from("<I", raw, at)
        assert at + 4 + length <= len(raw), "an element runs past the end"
        elements.append(raw[at + 4 : at + 4 + length])
        at += 4 + length
    return elements


def tensor(name: str, datatype: str, values: Any, shape: tuple[int, ...] | list[int] | None = None) -> Tensor:
    """A tensor from a flat list of values; one axis unless a shape is passed."""
    return Tensor(name, datatype, (len(values),) if shape is None else tuple(shape), pack(datatype, values))


def add(rows: int = 1, **changes: Any) -> Call:
    """A request to `add`: a is 0, 1, 2 ..., b is ten times a."""
    a = [float(number) for number in range(rows * 4)]
    b = [10 * number for number in a]
    inputs = (tensor("a", "FP32", a, [rows, 4]), tensor("b", "FP32", b, [rows, 4]))
    return replace(Call("add", inputs), **changes)


def summed(rows: int = 1) -> Tensor:
    """The response to `add(rows)`."""
    return tensor("sum", "FP32", [11.0 * number for number in range(rows * 4)], [rows, 4])


def ident(datatype: str, values: Any = None, **changes: Any) -> Call:
    """A request to `ident_<datatype>`."""
    values = SAMPLES[datatype] if values is None else values
    return replace(Call(f"ident_{datatype}", (tensor("x", datatype, values),)), **changes)


def one(model: str, value: float = 1.0, **changes: Any) -> Call:
    """A request of one number to a model whose input is `x`, FP32 [-1]."""
    return replace(Call(model, (tensor("x", "FP32", [value]),)), **changes)
