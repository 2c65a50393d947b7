"""JSON decoding of requests and encoding of results, including numpy and pandas objects.

Uses orjson where it is installed: several times as fast, with the same output.
"""

from __future__ import annotations

import datetime
import enum
import gc
import importlib
import json
import math
import sys
import uuid
from typing import Any

import numpy as np

__all__ = ["dumps", "loads", "to_plain"]

_AS_TEXT = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, complex, uuid.UUID)
"""Types that are encoded by `str`."""
_HINTS = {
    bytes: "send base64.b64encode(value).decode()",
    bytearray: "send base64.b64encode(value).decode()",
    memoryview: "send base64.b64encode(value).decode()",
    set: "send sorted(value) or list(value)",
    frozenset: "send sorted(value) or list(value)",
}


def loads(text: bytes) -> Any:
    """Decodes JSON; accepts NaN and infinities.

    Raises:
        ValueError: the text is not JSON.
    """
    if len(text) < _LARGE or not gc.isenabled():
        return _decode(text)
    # A large body allocates many objects, which would trigger collections that find no garbage.
    gc.disable()
    try:
        return _decode(text)
    finally:
        gc.enable()


def _decode(text: bytes) -> Any:
    # orjson decodes integers over 64 bits as floats.
    if orjson is not None and _TOO_LONG not in text.translate(_DIGITS):
        try:
            return orjson.loads(text)
        except ValueError:
            # The json module has better messages and accepts NaN, lone surrogates and other encodings.
            pass
    return json.loads(text)


def dumps(value: Any, *, nan: str = "null") -> bytes:
    """Encodes a value as JSON.

    Args:
        value: Numbers, strings, lists, dicts; arrays, frames and series; times; objects with attributes.
        nan: Treatment of NaN and infinities: `null` or `error`.

    Raises:
        TypeError: a type has no JSON form; the message names an alternative.
        ValueError: the value contains itself, or NaN with `nan="error"`.
    """
    if orjson is not None and nan == "null":
        try:
            text: bytes = orjson.dumps(value, default=_orjson_default, option=_OPTIONS)
            return text
        except TypeError:
            # Keys that are not strings, long integers, and types without a JSON form.
            pass
    try:
        return _encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return _encode(to_plain(value, nan=nan)).encode()


def to_plain(value: Any, *, nan: str = "null") -> Any:
    """Converts a value to JSON types. Accepts and raises the same as `dumps`."""
    return _Converter(nan).convert(value)


class _Converter:
    """Conversion of one value to JSON types."""

    def __init__(self, nan: str) -> None:
        self._nan = nan
        self._open: set[int] = set()

    def convert(self, value: Any) -> Any:
        if value is None or type(value) in (bool, str):
            return value
        if isinstance(value, enum.Enum):
            return self.convert(value.value)
        if isinstance(value, str):
            return str(value)
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, (float, np.floating)):
            return self._number(float(value))
        if isinstance(value, (np.str_, np.bytes_)):
            return self._reject(value) if isinstance(value, bytes) else str(value)
        if isinstance(value, (*_AS_TEXT, np.datetime64, np.timedelta64, np.complexfloating)) or _is_missing(value):
            return None if _is_missing(value) else str(value)
        return self._convert_nested(value)

    def _convert_nested(self, value: Any) -> Any:
        if type(value) in _HINTS:
            return self._reject(value)
        if id(value) in self._open:
            raise ValueError("the answer holds itself, so it has no end")
        self._open.add(id(value))
        try:
            return self._convert_container(value)
        except RecursionError:
            raise ValueError("the answer is nested too deeply") from None
        finally:
            self._open.discard(id(value))

    def _convert_container(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._key(key): self.convert(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.convert(one) for one in value]
        if isinstance(value, np.ndarray):
            return value.tolist() if _is_json_array(value) else self.convert(value.tolist())
        pandas = sys.modules.get("pandas")
        if pandas is not None:
            if isinstance(value, pandas.DataFrame):
                return [self.convert(row) for row in value.to_dict(orient="records")]
            if isinstance(value, (pandas.Series, pandas.Index)):
                return self.convert(value.tolist())
        if hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
            return {str(name): self.convert(one) for name, one in vars(value).items()}
        return self._reject(value)

    def _number(self, value: float) -> float | None:
        if math.isfinite(value):
            return value
        if self._nan == "error":
            raise ValueError(f"the answer has the number {value}, which JSON does not have")
        return None

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return str(key)
        if key is None or isinstance(key, (bool, np.bool_)):
            return {None: "null", True: "true", False: "false"}[None if key is None else bool(key)]
        if isinstance(key, np.generic):
            return str(key.item())
        return str(key)

    def _reject(self, value: Any) -> Any:
        kind = type(value)
        hint = next((text for one, text in _HINTS.items() if isinstance(value, one)), "send what JSON has")
        raise TypeError(f"the answer has an object of type {kind.__name__}, which JSON does not have: {hint}")


def _is_missing(value: Any) -> bool:
    """Returns whether a value is a missing-value marker of pandas or numpy."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and (value is pandas.NaT or value is pandas.NA):
        return True
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def _is_json_array(array: Any) -> bool:
    """Returns whether all elements are numbers or booleans with a JSON form."""
    kind = array.dtype.kind
    return kind in "biu" or (kind == "f" and array.dtype.itemsize <= 8 and bool(np.isfinite(array).all()))


def _orjson_default(value: Any) -> Any:
    """Converts a value of a type unknown to orjson."""
    return _Converter("null").convert(value)


def _if_installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


orjson = _if_installed("orjson")
_OPTIONS = 0 if orjson is None else orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_DIGITS = bytes(ord("0") if chr(one).isdigit() and one < 128 else ord(" ") for one in range(256))
_TOO_LONG = b"0" * 19
_LARGE = 64 * 1024
"""Bytes from which on a body is decoded with garbage collection off."""
# Created once: `json.dumps` with these options creates an encoder per call.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
