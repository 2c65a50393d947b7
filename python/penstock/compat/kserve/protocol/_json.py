"""JSON as the protocol has it: without the words for numbers that are none."""

from __future__ import annotations

import json
import math
from typing import Any

from penstock.compat.kserve.errors import InvalidInput

__all__ = ["dumps", "loads"]


def dumps(value: Any) -> bytes:
    """A JSON text. What is not a number becomes null."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def loads(text: bytes) -> Any:
    """What a JSON text says.

    Raises:
        InvalidInput: it is none.
    """
    try:
        return json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        raise InvalidInput(f"Unrecognized request format: {error}") from None


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value
