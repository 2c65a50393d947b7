"""JSON as KServe reads and writes it: compact UTF-8, with arrays, and null for NaN and infinities.

Uses orjson where it is installed.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import importlib
import json
import math
import uuid
from typing import Any

import numpy as np

from penstock.compat.kserve.errors import InvalidInput
from penstock.integrations import json_text

__all__ = ["dumps", "dumps_spaced", "loads", "loads_request"]


def dumps(value: Any) -> bytes:
    """Returns a value as JSON. Arrays and numpy numbers become lists and numbers; NaN and infinities null.

    Raises:
        TypeError: JSON cannot express a part of the value.
        ValueError: the value contains itself.
    """
    if orjson is not None:
        try:
            text: bytes = orjson.dumps(value, default=_plain, option=_OPTIONS)
            return text
        except TypeError:
            # Integers of more than 64 bits, or a value that JSON cannot express.
            pass
    try:
        return _encode(value).encode()
    except ValueError:
        # Rare: a NaN or infinity, replaced by null in a second pass.
        return _encode(_finite(value, 0)).encode()


def loads(text: bytes | str) -> Any:
    """Returns the value of a JSON text in UTF-8.

    Raises:
        ValueError: the text is not JSON; NaN and Infinity are not JSON either.
    """
    if orjson is not None:
        return orjson.loads(text)
    try:
        value = _decode(text if isinstance(text, str) else str(text, "utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if (position := json_text.find_surrogate(text, value)) is not None:
        raise ValueError(json_text.surrogate_message(position))
    return value


def loads_request(text: bytes) -> Any:
    """Returns the value of a JSON text that a client sent.

    Raises:
        InvalidInput: it is not JSON.
    """
    try:
        return loads(text)
    except ValueError as error:
        raise InvalidInput(f"Unrecognized request format: {error}") from None


def dumps_spaced(value: Any) -> bytes:
    """Returns a value as JSON in ASCII, with spaces after commas and colons, as the standard library writes it."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_finite(value, 0), default=_plain, allow_nan=False).encode()


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _plain(value: Any) -> Any:
    """Returns the JSON equivalent of a value of another type."""
    if isinstance(value, (np.ndarray, np.generic)):
        return _listed(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "model_dump"):
        return value.model_dump()
    raise TypeError(f"Type is not JSON serializable: {type(value).__name__}")


def _listed(array: Any) -> Any:
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        # The shortest text of a float32 differs from that of the same value as a double.
        return array.astype(np.float32).astype("U").astype(np.float64).tolist()
    return (array.astype("M8[us]") if array.dtype.kind == "M" else array).tolist()


def _finite(value: Any, depth: int) -> Any:
    """Returns a value with None for NaN and infinities."""
    if depth > _DEEPEST:
        raise ValueError("Circular reference detected")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one, depth + 1) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one, depth + 1) for one in value]
    return value if value is None or isinstance(value, (str, int)) else _finite(_plain(value), depth + 1)


def _if_installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_DEEPEST = 200
orjson = _if_installed("orjson")
_OPTIONS = 0 if orjson is None else orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
# Created once: `json.dumps` would create them on each call.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain).encode
_decode = json.JSONDecoder(parse_constant=_no_number).decode
