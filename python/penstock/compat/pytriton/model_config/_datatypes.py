"""Names of Triton's data types."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.compat.pytriton.exceptions import PyTritonBadParameterError, PyTritonModelConfigError

__all__ = ["from_triton", "is_bytes", "to_triton"]

_NAMES: dict[str, Any] = {
    "BOOL": np.dtype("bool"),
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    **{f"{sign}INT{bits}": getattr(np, f"{sign.lower()}int{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "STRING": np.bytes_,
}


def is_bytes(dtype: Any) -> bool:
    """True if tensors of that type contain text or binary data."""
    return dtype in (bytes, object, str) or np.dtype(dtype).kind in "OSU"


def to_triton(dtype: Any) -> str:
    """Returns Triton's name of a numpy type, such as TYPE_FP32.

    Raises:
        PyTritonBadParameterError: Triton has no such type.
    """
    if is_bytes(dtype):
        return "TYPE_STRING"
    for name, known in _NAMES.items():
        if np.dtype(known) == np.dtype(dtype):
            return f"TYPE_{name}"
    raise PyTritonBadParameterError(f"Triton has no data type for {dtype}.")


def from_triton(data_type: str | None, context: str) -> Any:
    """Returns the numpy type of a Triton data type.

    Args:
        data_type: Name such as TYPE_FP32.
        context: Tensor of that type, for messages: for example "input with name `x`".

    Raises:
        PyTritonModelConfigError: the name is missing or unknown.
    """
    if not data_type:
        raise PyTritonModelConfigError(f"Data type for {context} not defined.")
    _, _, name = data_type.partition("_")
    if not name or "_" in name:
        raise PyTritonModelConfigError(
            f"Invalid data type `{data_type}` for {context} not defined. The expected name is TYPE_{{type}}."
        )
    if name not in _NAMES:
        raise PyTritonModelConfigError(f"Unsupported data type `{data_type}` for {context}")
    return _NAMES[name]
