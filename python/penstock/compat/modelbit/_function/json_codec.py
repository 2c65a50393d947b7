"""JSON, in and out: what a request has, and what a function returned, without what JSON does not have.

By orjson where it is installed, which is several times as quick and gives the same.
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

__all__ = ["dumps", "loads", "plain"]

_SAID = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, complex, uuid.UUID)
"""What is sent as Python writes it."""
_HINTS = {
    bytes: "send base64.b64encode(value).decode()",
    bytearray: "send base64.b64encode(value).decode()",
    memoryview: "send base64.b64encode(value).decode()",
    set: "send sorted(value) or list(value)",
    frozenset: "send sorted(value) or list(value)",
}


def loads(text: bytes) -> Any:
    """The value of JSON. Numbers that are none are taken too.

    Raises:
        ValueError: it is no JSON.
    """
    if len(text) < _LARGE or not gc.isenabled():
        return _loaded(text)
    # So many new objects would have the collector look for garbage again and again, and there is none among them.
    gc.disable()
    try:
        return _loaded(text)
    finally:
        gc.enable()


def _loaded(text: bytes) -> Any:
    # Whole numbers of more than 64 bits would come as floats.
    if orjson is not None and _TOO_LONG not in text.translate(_DIGITS):
        try:
            return orjson.loads(text)
        except ValueError:
            # It says why less well, and refuses what some clients send: NaN, halves of pairs, other encodings.
            pass
    return json.loads(text)


def dumps(value: Any, *, nan: str = "null") -> bytes:
    """A value as JSON.

    Args:
        value: Numbers, texts, lists, dicts; arrays, frames and series; times; objects with attributes.
        nan: What becomes of numbers that are none: `null`, or `error`.

    Raises:
        TypeError: it has something that JSON has no place for; the message says what to send instead.
        ValueError: it holds itself, or a number that is none, and that is an error.
    """
    if orjson is not None and nan == "null":
        try:
            text: bytes = orjson.dumps(value, default=_plain_array, option=_OPTIONS)
            return text
        except TypeError:
            # Keys that are no texts, long numbers, and what has no place in JSON either.
            pass
    try:
        return _encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return _encode(plain(value, nan=nan)).encode()


def plain(value: Any, *, nan: str = "null") -> Any:
    """A value made of what JSON has. Takes and raises what `dumps` does."""
    return _Plain(nan).of(value)


class _Plain:
    """One value on its way."""

    def __init__(self, nan: str) -> None:
        self._nan = nan
        self._open: set[int] = set()

    def of(self, value: Any) -> Any:
        if value is None or type(value) in (bool, str):
            return value
        if isinstance(value, enum.Enum):
            return self.of(value.value)
        if isinstance(value, str):
            return str(value)
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, (float, np.floating)):
            return self._number(float(value))
        if isinstance(value, (np.str_, np.bytes_)):
            return self._refused(value) if isinstance(value, bytes) else str(value)
        if isinstance(value, (*_SAID, np.datetime64, np.timedelta64, np.complexfloating)) or _is_missing(value):
            return None if _is_missing(value) else str(value)
        return self._inside(value)

    def _inside(self, value: Any) -> Any:
        if type(value) in _HINTS:
            return self._refused(value)
        if id(value) in self._open:
            raise ValueError("the answer holds itself, so it has no end")
        self._open.add(id(value))
        try:
            return self._parts(value)
        except RecursionError:
            raise ValueError("the answer is nested too deeply") from None
        finally:
            self._open.discard(id(value))

    def _parts(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._key(key): self.of(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.of(one) for one in value]
        if isinstance(value, np.ndarray):
            return value.tolist() if _is_plain(value) else self.of(value.tolist())
        pandas = sys.modules.get("pandas")
        if pandas is not None:
            if isinstance(value, pandas.DataFrame):
                return [self.of(row) for row in value.to_dict(orient="records")]
            if isinstance(value, (pandas.Series, pandas.Index)):
                return self.of(value.tolist())
        if hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
            return {str(name): self.of(one) for name, one in vars(value).items()}
        return self._refused(value)

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

    def _refused(self, value: Any) -> Any:
        kind = type(value)
        hint = next((text for one, text in _HINTS.items() if isinstance(value, one)), "send what JSON has")
        raise TypeError(f"the answer has an object of type {kind.__name__}, which JSON does not have: {hint}")


def _is_missing(value: Any) -> bool:
    """Whether it is one of pandas' or numpy's marks for a value that is missing."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and (value is pandas.NaT or value is pandas.NA):
        return True
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def _is_plain(array: Any) -> bool:
    """Whether its elements all are numbers that JSON has."""
    kind = array.dtype.kind
    return kind in "biu" or (kind == "f" and array.dtype.itemsize <= 8 and bool(np.isfinite(array).all()))


def _plain_array(value: Any) -> Any:
    """What orjson gets instead of what it does not know."""
    return _Plain("null").of(value)


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
"""Bytes of JSON from which on it is many objects."""
# Made once: `json.dumps` would make it for each call.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
