"""Data frames of pandas and polars as JSON: an object of columns by name."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["is_frame_class", "to_json"]

_LIBRARIES = ("pandas", "polars")


def is_frame_class(kind: type) -> bool:
    """True if a class is a data frame. Its library is not imported for that."""
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] in _LIBRARIES


def to_json(frame: Any) -> str:
    """The columns of a frame. Numbers that JSON does not have are missing values, `null`.

    Raises:
        TypeError: a value without a JSON form.
    """
    is_pandas = type(frame).__module__.startswith("pandas")
    columns = frame.to_dict(orient="list") if is_pandas else frame.to_dict(as_series=False)
    try:
        return _text(columns)
    except ValueError:
        return _text({name: [_finite(item) for item in column] for name, column in columns.items()})


def _text(columns: dict[str, list[Any]]) -> str:
    return json.dumps(columns, default=_plain, allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    for method in ("isoformat", "tolist"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
