"""JSON that a caller sends."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve import _json
from penstock.compat.kserve.errors import InvalidInput

__all__ = ["loads"]


def loads(text: bytes) -> Any:
    """What a JSON text says.

    Raises:
        InvalidInput: it is none.
    """
    try:
        return _json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"Unrecognized request format: {error}") from None
