"""Datatypes of the protocol and of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["from_np_dtype", "to_np_dtype"]

_TYPES: dict[str, type] = {
    "BOOL": bool,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items()}


def to_np_dtype(dtype: str) -> type | None:
    """Returns the numpy type of a datatype, `np.float32` for "FP32"; None for an unknown one."""
    return _TYPES.get(dtype)


def from_np_dtype(np_dtype: Any) -> str | None:
    """Returns the datatype of a numpy dtype, or None. Objects, text, bytes and times are "BYTES"."""
    dtype = np_dtype if isinstance(np_dtype, np.dtype) else np.dtype(np_dtype)
    name = _NAMES.get(dtype)
    if name is not None:
        return name
    if dtype.kind in "SUM":
        return "BYTES"
    # Ignoring byte order: the numbers are the same.
    return _NAMES.get(dtype.newbyteorder("="))
