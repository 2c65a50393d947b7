"""Datatypes of the protocol and their numpy dtypes."""

from __future__ import annotations

from typing import Any, NamedTuple, Union

import numpy as np

from penstock._spec.elements import exact_array

# numpy has no public type for the arguments of np.dtype that includes the types of ml_dtypes.
DatatypeLike = Union[str, type, "np.dtype[Any]"]
"""A numpy dtype or scalar type, `bytes`, `str`, `bool`, `int`, `float`, or a wire name such as "BF16"."""

BYTES = "BYTES"

ARRAY_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    # numpy has no bfloat16. A float32 can represent its values.
    "BF16": np.dtype(np.float32),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
}
"""Dtypes of a handler's arrays, by wire name. BYTES has none: its arrays are of objects."""

WIDENED = {"BF16": 2}
"""Bytes on the wire of the datatypes that numpy lacks: their arrays are float32, unless `ml_dtypes` is used."""

ITEM_SIZES = {name: WIDENED.get(name, dtype.itemsize) for name, dtype in ARRAY_DTYPES.items()}
"""Bytes of one element on the wire. BYTES has none: its elements differ in size."""

_WIRE_NAMES = {dtype: name for name, dtype in ARRAY_DTYPES.items() if name not in WIDENED}
# Fixed to 64 bits, where numpy 1 follows the platform's C `long`.
_PYTHON_TYPES: dict[object, str] = {bool: "BOOL", int: "INT64", float: "FP64"}


class Datatype(NamedTuple):
    """A datatype in normal form."""

    name: str
    """The wire name."""
    dtype: np.dtype[Any] | None
    """The dtype of arrays; None for BYTES."""
    text: bool
    """True if BYTES elements are `str` to the handler."""


def parse(datatype: object) -> Datatype:
    """Converts a user's datatype to normal form.

    Raises:
        ValueError: not a datatype of the protocol; the message lists the accepted forms.
    """
    if datatype is bytes or datatype == BYTES:
        return Datatype(BYTES, None, text=False)
    if datatype is str:
        return Datatype(BYTES, None, text=True)
    if isinstance(datatype, type) and datatype in _PYTHON_TYPES:
        datatype = _PYTHON_TYPES[datatype]
    if isinstance(datatype, str) and datatype in ARRAY_DTYPES:
        return Datatype(datatype, ARRAY_DTYPES[datatype], text=False)
    return _from_numpy(datatype)


def wire_name(dtype: np.dtype[Any]) -> str | None:
    """The wire name of an array's dtype; None if the protocol has no such type."""
    if dtype.kind in "OSU":
        return BYTES
    if dtype.name == "bfloat16":
        return "BF16"
    return _WIRE_NAMES.get(dtype)


def element(value: object, datatype: Datatype) -> bytes:
    """The bytes of one element in a tensor's memory; of BYTES, without the length prefix.

    Raises:
        ValueError: the datatype has no such value.
    """
    problem = f"pad {value!r} is not a value of {datatype.name}"
    if datatype.dtype is None:
        if isinstance(value, str):
            return value.encode()
        if not isinstance(value, bytes):
            raise ValueError(problem)
        return value
    if not isinstance(value, (bool, int, float, np.generic)):
        raise ValueError(problem)
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            one = exact_array(value, datatype.dtype)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(problem) from None
    return (to_bfloat16(one) if datatype.name == "BF16" and datatype.dtype == np.float32 else one).tobytes()


def to_bfloat16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits of float32 elements as bfloat16: to nearest, ties to even, as hardware does; NaN stays NaN."""
    bits = np.ascontiguousarray(array).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype("<u2")


def _from_numpy(datatype: object) -> Datatype:
    try:
        # numpy takes None for float64, and an unknown class for object.
        dtype = None if datatype is None or _is_foreign(datatype) else np.dtype(datatype)  # type: ignore[call-overload]
    except TypeError:
        dtype = None
    name = None if dtype is None else wire_name(dtype)
    if dtype is None or name is None:
        shown = datatype.__name__ if isinstance(datatype, type) else datatype
        raise ValueError(
            f"datatype {shown!r} is not one of the protocol's: write a numpy dtype such as np.float32, "
            f"bytes, str, or one of {', '.join([*ARRAY_DTYPES, BYTES])}"
        )
    if name == BYTES:
        return Datatype(BYTES, None, text=dtype.kind == "U")
    return Datatype(name, dtype, text=False)


def _is_foreign(datatype: object) -> bool:
    return isinstance(datatype, type) and not issubclass(datatype, np.generic) and np.dtype(datatype) == object
