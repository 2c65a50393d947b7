"""JSON documents: a `dict`, dataclass, `TypedDict` or pydantic model as a BYTES element."""

from __future__ import annotations

import dataclasses
import enum
import json
import typing
from collections.abc import Mapping
from typing import Any, Literal

from penstock._handler import json_text, type_hints
from penstock._handler.json_readers import (
    LISTS,
    OBJECTS,
    UNIONS,
    Reader,
    is_record,
    one_line,
    required_fields,
    unqualified,
)
from penstock.errors import HandlerError, InvalidInput


def is_document(hint: Any) -> bool:
    """True if a parameter with this hint takes a JSON document."""
    origin = typing.get_origin(hint) or hint
    return hint in (Any, object) or origin in LISTS or origin in OBJECTS or is_record(hint)


def loads(raw: str | bytes, reader: Reader, name: str) -> Any:
    """Parses and converts the document of input `name`.

    Raises:
        InvalidInput: not JSON, or not of the hint's type; the message names the input.
    """
    try:
        value = json_text.loads(raw)
    # ValueError also for lone surrogates and numbers with too many digits; RecursionError for deep nesting.
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"input {name!r} must hold one JSON document: {one_line(error)}") from None
    try:
        return reader(value, f"input {name!r}")
    except RecursionError:
        raise InvalidInput(f"input {name!r} is nested too deeply") from None


def dumps(value: Any, hint: Any, name: str) -> bytes:
    """The document of output `name`.

    Raises:
        HandlerError: the value is not of the hint's type, or is not a JSON value.
    """
    if not _is_instance(value, hint):
        returned = type(value).__name__
        raise HandlerError(f"output {name!r}: the handler returned {returned}, it declares {type_hints.show(hint)}")
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise HandlerError(f"output {name!r} cannot be written as JSON: {one_line(error)}") from error


def example(hint: Any, reader: Reader) -> str | None:
    """A document that the reader accepts; None if the hint does not suffice to build one."""
    try:
        value = _example(hint)
        reader(value, "example")
    except (InvalidInput, LookupError, RecursionError):
        return None
    return json.dumps(value)


def _example(hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is typing.Annotated:
        return _example(arguments[0])
    if origin in UNIONS:
        return None
    if origin is Literal:
        return arguments[0]
    if origin in LISTS:
        return []
    if origin in OBJECTS or hint in (Any, object):
        return {}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        members = list(hint)
        return members[0].value
    if is_record(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return {
            name: _example(unqualified(hints[name])) for name in sorted(required_fields(hint), key=list(hints).index)
        }
    return {bool: True, int: 1, float: 1.0, str: "text"}[hint]


def _is_instance(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint) or hint
    if hint is Any:
        # From Python 3.11 on `Any` is a class, but without instances.
        return True
    if origin in UNIONS:
        return any(_is_instance(value, member) for member in typing.get_args(hint))
    if origin in LISTS:
        return isinstance(value, (list, tuple))
    if origin in OBJECTS or typing.is_typeddict(hint):
        return isinstance(value, Mapping)
    return not isinstance(hint, type) or isinstance(value, hint)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    # Scalars and arrays of numpy.
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not a JSON value")
