"""Conversion of the arguments of an inference for the compiled extension."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from penstock._spec import datatypes, frames
from penstock._spec.elements import exact_array
from penstock._spec.suggestions import suggestion
from penstock.client import _hints
from penstock.client._options import Call
from penstock.errors import InvalidInput

__all__ = ["Call", "Declared", "call", "declared", "needs_metadata"]

Array = np.ndarray[Any, Any]
Parameters = Mapping[str, "bool | int | float | str"]
JSON = "application/json"


class DeclaredInput(NamedTuple):
    """An input in a model's metadata."""

    datatype: str
    shape: list[int]
    is_document: bool = False
    """True if its elements are JSON documents."""


Declared = Mapping[str, DeclaredInput]
"""A model's inputs by name."""


def needs_metadata(inputs: Mapping[str, Any]) -> bool:
    """True if a value needs the model's metadata to determine its datatype or shape."""
    return any(not _is_array(value) for value in inputs.values())


def _is_array(value: Any) -> bool:
    # A data frame has `__array__` too, which loses its columns.
    return isinstance(value, np.ndarray) or (hasattr(value, "__array__") and not _is_frame(value))


def _is_frame(value: Any) -> bool:
    return frames.is_frame_class(type(value))


def declared(metadata: Mapping[str, Any]) -> dict[str, DeclaredInput]:
    """The inputs in a model's metadata."""
    return {
        tensor["name"]: DeclaredInput(
            tensor["datatype"], list(tensor["shape"]), tensor.get("parameters", {}).get("content_type") == JSON
        )
        for tensor in metadata.get("inputs", [])
    }


def call(
    model: str,
    inputs: Mapping[str, Any],
    *,
    known: Declared | None,
    version: str | None,
    request_id: str | None,
    outputs: Iterable[str] | None,
    parameters: Parameters | None,
    datatypes: Mapping[str, str] | None,
) -> Call:
    """The arguments of an inference.

    Raises:
        InvalidInput: a value cannot be converted to the declared input; the message names it.
    """
    for option, value in (
        ("request_id", request_id),
        ("outputs", outputs),
        ("parameters", parameters),
        ("datatypes", datatypes),
    ):
        if value is not None:
            _hints.check_type(option, value)
    given: list[tuple[str, Any, str | None]] = []
    for name, value in inputs.items():
        datatype = None if datatypes is None else datatypes.get(name)
        if isinstance(value, np.ndarray):
            given.append((name, value, datatype))
        else:
            given.append((name, *_converted(model, name, value, datatype, known)))
    return (
        model,
        "" if version is None else str(version),
        request_id or "",
        given,
        [] if outputs is None else list(outputs),
        [] if parameters is None else list(parameters.items()),
    )


def _converted(
    model: str, name: str, value: Any, datatype: str | None, known: Declared | None
) -> tuple[Array, str | None]:
    if _is_array(value):
        return np.asarray(value), datatype
    if known is not None and not known:
        # The model declares no inputs: it may take any tensors.
        return _undeclared(name, value, datatype), datatype
    if known is None or name not in known:
        shown = ", ".join(known or ()) or "none"
        raise InvalidInput(f"model {model!r} has no input {name!r}, it has {shown}{suggestion(name, known or ())}")
    declared_datatype, shape, is_document = known[name]
    datatype = datatype or declared_datatype
    if not is_document and hasattr(value, "__array__"):
        return np.asarray(value), datatype
    try:
        if is_document:
            array = _documents(value, len(shape))
        elif datatype == datatypes.BYTES:
            array = _bytes_array(value, len(shape))
        else:
            array = _number_array(value, datatype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"input {name!r} cannot be converted to {datatype}: {error}") from None
    missing = len(shape) - array.ndim
    # Leading axes of size 1 may be left out: a single row, or a single element.
    if missing > 0 and all(size in (-1, 1) for size in shape[:missing]):
        array = array.reshape((1,) * missing + array.shape)
    return array, datatype


def _documents(value: Any, rank: int) -> Array:
    """JSON documents: one, or with an axis one for each item of a list."""
    if rank and hasattr(value, "tolist"):
        value = value.tolist()
    if rank and not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list of rows, got {type(value).__name__}")
    array: Array = np.empty(len(value) if rank else (), dtype=object)
    for place, row in enumerate(value) if rank else [((), value)]:
        array[place] = _document(row)
    return array


def _document(value: Any) -> str | bytes:
    """The text of a document. `str` and `bytes` are texts already."""
    if isinstance(value, (str, bytes)):
        return value
    return frames.to_json(value) if _is_frame(value) else json.dumps(value, default=_plain, allow_nan=False)


def _plain(value: Any) -> Any:
    """A dataclass or a pydantic model as a dict, a time as text, an array as a list."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    for method in ("isoformat", "tolist"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _undeclared(name: str, value: Any, datatype: str | None) -> Array:
    if datatype is not None and datatype != datatypes.BYTES:
        try:
            return _number_array(value, datatype)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"input {name!r} cannot be converted to {datatype}: {error}") from None
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InvalidInput(f"input {name!r} cannot be converted to an array: {error}") from None


def _number_array(value: Any, datatype: str) -> Array:
    dtype = datatypes.ARRAY_DTYPES.get(datatype)
    if dtype is None:
        raise ValueError("it is not a datatype of the protocol")
    return exact_array(value, dtype)


def _bytes_array(value: Any, rank: int) -> Array:
    if isinstance(value, dict) or (isinstance(value, list) and not _is_text(value, rank)):
        # Not a list of elements: a document, which is sent as JSON.
        value = json.dumps(value)
    if isinstance(value, (str, bytes)):
        array: Array = np.empty((), dtype=object)
        array[()] = value
        return array
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected str or bytes, got {type(value).__name__}")
    return np.array(value, dtype=object)


def _is_text(value: Any, rank: int) -> bool:
    if isinstance(value, (str, bytes)):
        return True
    return rank > 0 and isinstance(value, (list, tuple)) and all(_is_text(item, rank - 1) for item in value)
