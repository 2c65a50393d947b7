"""Adapters for classes of other libraries: images of Pillow, data frames of pandas and polars.

A handler's annotation names the class, so its library is imported already.
"""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np

from penstock._handler import json_text
from penstock._handler.adapters import Adapter, mismatch, object_array
from penstock._spec.definition import Document
from penstock._spec.tensor import Tensor
from penstock.errors import HandlerError, InvalidInput

__all__ = ["library_adapter"]

_FRAME_SCHEMA = {
    "description": "The columns of a table by name, or its rows as objects.",
    "anyOf": [
        {"type": "object", "additionalProperties": {"type": "array"}},
        {"type": "array", "items": {"type": "object"}},
    ],
}


def library_adapter(hint: Any) -> Adapter | None:
    """The adapter of a class of another library; None for any other hint."""
    if not isinstance(hint, type):
        return None
    library, kind = hint.__module__.partition(".")[0], hint.__name__
    if library == "PIL" and any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in hint.__mro__):
        return _image()
    if library in ("pandas", "polars") and kind == "DataFrame":
        return _frame(hint, library)
    return None


def _image() -> Adapter:
    tensor = Tensor(datatype=bytes).of_media_type("image/png")

    def to_python(array: np.ndarray[Any, Any], name: str) -> Any:
        from PIL import Image

        content = array.item()
        try:
            image = Image.open(io.BytesIO(content))
            image.load()
        except Image.DecompressionBombError as error:
            raise InvalidInput(f"input {name!r}: {error}") from None
        # A malformed file raises errors of many kinds.
        except Exception:
            shown = "no bytes" if not content else f"{len(content)} bytes of another kind or damaged"
            raise InvalidInput(f"input {name!r} must be an image that Pillow reads, got {shown}") from None
        return image

    def to_array(value: Any, name: str) -> np.ndarray[Any, Any]:
        if not hasattr(value, "save") or not hasattr(value, "getbands"):
            raise mismatch(value, name, "Image")
        content = io.BytesIO()
        # PNG has no such modes.
        image = value.convert("RGB") if value.mode in ("CMYK", "YCbCr", "LAB", "HSV", "F") else value
        image.save(content, format="PNG")
        return object_array(content.getvalue())

    return Adapter(tensor, to_python, to_array)


def _frame(kind: Any, library: str) -> Adapter:
    tensor = Tensor(datatype=bytes).as_document()

    def to_python(array: np.ndarray[Any, Any], name: str) -> Any:
        try:
            columns = json_text.loads(array.item())
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"input {name!r} must hold one JSON document: {error}") from None
        by_column = isinstance(columns, dict) and all(isinstance(column, list) for column in columns.values())
        by_row = isinstance(columns, list) and all(isinstance(row, dict) for row in columns)
        if not (by_column or by_row):
            raise InvalidInput(f"input {name!r} must be an object of columns by name, or a list of rows as objects")
        if by_column and len({len(column) for column in columns.values()}) > 1:
            lengths = ", ".join(f"{column!r} {len(values)}" for column, values in columns.items())
            raise InvalidInput(f"input {name!r} has columns of different lengths: {lengths}")
        try:
            return kind(columns)
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInput(f"input {name!r} cannot be a data frame: {reason}") from None

    def to_array(value: Any, name: str) -> np.ndarray[Any, Any]:
        if not isinstance(value, kind):
            raise mismatch(value, name, "DataFrame")
        columns = value.to_dict(orient="list") if library == "pandas" else value.to_dict(as_series=False)
        try:
            text = json.dumps(columns, default=_plain, allow_nan=False, separators=(",", ":"))
        except ValueError:
            text = json.dumps(
                {name: [_finite(item) for item in column] for name, column in columns.items()}, default=_plain
            )
        except TypeError as error:
            raise HandlerError(f"output {name!r} cannot be written as JSON: {error}") from error
        return object_array(text.encode())

    return Adapter(tensor, to_python, to_array, Document(json.dumps(_FRAME_SCHEMA), None))


def _plain(value: Any) -> Any:
    for method in ("isoformat", "tolist"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _finite(value: Any) -> Any:
    """The value; `None` for a number that JSON does not have, which is a missing value in a column."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
