"""Adapters for classes of other libraries: images of Pillow, data frames of pandas and polars.

A handler's annotation names the class, so its library is imported already.
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from penstock._handler.adapters import Adapter, mismatch, object_array
from penstock._spec import frames
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
    if any((base.__module__, base.__name__) == ("PIL.Image", "Image") for base in hint.__mro__):
        return _image()
    return _frame(hint) if frames.is_frame_class(hint) else None


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


def _frame(kind: Any) -> Adapter:
    # Only such handlers need msgspec, whose import takes a while.
    from penstock._handler.json_codec import parse

    tensor = Tensor(datatype=bytes).as_document()

    def to_python(array: np.ndarray[Any, Any], name: str) -> Any:
        columns = parse(array.item(), name)
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
        try:
            return object_array(frames.to_json(value).encode())
        except TypeError as error:
            raise HandlerError(f"output {name!r} cannot be written as JSON: {error}") from error

    return Adapter(tensor, to_python, to_array, Document(json.dumps(_FRAME_SCHEMA), None))
