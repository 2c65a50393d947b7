"""JSON as KServe writes and reads it: compact, UTF-8, and with null where a float is none."""

from __future__ import annotations

import importlib
import json
import math
from typing import Any

import numpy as np

orjson: Any
try:
    orjson = importlib.import_module("orjson")
except ImportError:
    orjson = None

__all__ = ["dumps", "loads"]


def dumps(value: Any) -> bytes:
    """The value as JSON. Arrays and numpy's numbers become lists and numbers; NaN and infinities null.

    Raises:
        TypeError: a part of it has no form in JSON.
    """
    if orjson is not None:
        try:
            return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)  # type: ignore[no-any-return]
        except TypeError:
            # Arrays that are not contiguous, integers of more than 64 bits, keys that are no text.
            pass
    try:
        return _text(value)
    except ValueError:
        return _text(_without_nan(value))


def loads(text: bytes | str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is not JSON.
    """
    return json.loads(text) if orjson is None else orjson.loads(text)


def _text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"Type is not JSON serializable: {type(value).__name__}")


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (np.ndarray, np.generic)):
        return _without_nan(value.tolist())
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(one) for one in value]
    return value
