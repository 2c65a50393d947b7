"""`Codec`: JSON of one type hint, compiled at load, by msgspec. Pydantic models are built and written by pydantic."""

from __future__ import annotations

import enum
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock._handler import json_errors, json_schema, json_text, json_types, type_hints
from penstock.errors import HandlerError, InvalidInput

__all__ = ["Codec", "compile_codec", "parse"]

_DECODER = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Codec:
    """JSON of one type hint. Names are those of inputs and outputs, for messages."""

    decode: Callable[[str | bytes, str], Any]
    """Converts a JSON text to a value. Raises `InvalidInput`: not JSON, or not of the hint's type."""
    read: Callable[[Any, str], Any]
    """Converts parsed JSON, which it may change. Raises `InvalidInput`: not of the hint's type."""
    encode: Callable[[Any, str], bytes]
    """Converts a value to JSON. Raises `HandlerError`: not of the hint's type, or without a JSON form."""
    schema: str
    """JSON Schema, as JSON text; references in it begin with `#/$defs/`."""
    example: str | None
    """A text that `decode` accepts; None if the hint does not suffice to build one."""


def compile_codec(hint: Any, where: str, *, reads: bool = True) -> Codec:
    """The codec of a hint.

    Args:
        hint: The type hint.
        where: Prefix of messages.
        reads: Whether values will be read, which needs classes that msgspec can build.

    Raises:
        SignatureError: JSON has no such value; the message begins with `where`.
    """
    classes = json_types.check(hint, where, reads=reads)
    find_unknown = json_types.unknown_finder(hint)
    schema = json_schema.of_hint(hint, classes)

    def read(value: Any, name: str) -> Any:
        try:
            built = msgspec.convert(value, hint, dec_hook=_build)
            unknown = find_unknown(value) if find_unknown is not None else None
        except msgspec.ValidationError as error:
            raise json_errors.refusal(error, name, value, schema, _fails_alike(hint, value, error)) from None
        except RecursionError:
            raise InvalidInput(f"input {name!r} is nested too deeply") from None
        if unknown is not None:
            raise json_errors.unexpected(name, *unknown)
        return built

    def decode(raw: str | bytes, name: str) -> Any:
        return read(parse(raw, name), name)

    def encode(value: Any, name: str) -> bytes:
        if not _is_instance(value, hint):
            returned = type(value).__name__
            raise HandlerError(f"output {name!r}: the handler returned {returned}, it declares {type_hints.show(hint)}")
        try:
            return _ENCODER.encode(value)
        except (TypeError, ValueError, RecursionError) as error:
            reason = json_errors.one_line(error)
            raise HandlerError(f"output {name!r} cannot be written as JSON: {reason}") from error

    return Codec(decode, read, encode, json.dumps(schema), _example(schema, read))


def parse(raw: str | bytes, name: str) -> Any:
    """Parses a JSON text; the name is that of the input.

    Raises:
        InvalidInput: it is not one JSON document.
    """
    try:
        return _DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # The standard library also takes NaN and other encodings than UTF-8, and has the better messages.
        try:
            return json_text.loads(raw)
        # ValueError also for lone surrogates and numbers with too many digits; RecursionError for deep nesting.
        except (ValueError, RecursionError) as error:
            reason = json_errors.one_line(error)
            raise InvalidInput(f"input {name!r} must hold one JSON document: {reason}") from None


def _build(kind: Any, value: Any) -> Any:
    """Builds what msgspec does not know, of the kinds that `json_types.check` allows: `object` and pydantic models."""
    return value if kind is object else kind.model_validate(value)


def _fails_alike(hint: Any, value: Any, error: msgspec.ValidationError) -> Callable[[], bool]:
    """A function that is true while conversion of `value`, which may have changed, ends in the same error."""

    def fails_alike() -> bool:
        try:
            msgspec.convert(value, hint, dec_hook=_build)
        except msgspec.ValidationError as other:
            return str(other) == str(error)
        return False

    return fails_alike


def _example(schema: json_schema.Schema, read: Callable[[Any, str], Any]) -> str | None:
    try:
        text = json.dumps(json_schema.example(schema))
        read(json.loads(text), "example")
    except Exception:
        # Classes check themselves in code of their own. The model is served all the same.
        return None
    return text


def _is_instance(value: Any, hint: Any) -> bool:
    hint = type_hints.unaliased(hint)
    origin = typing.get_origin(hint) or hint
    if origin is typing.Annotated:
        return _is_instance(value, typing.get_args(hint)[0])
    if hint is Any:
        # From Python 3.11 on `Any` is a class, but without instances.
        return True
    if origin in type_hints.UNIONS:
        return any(_is_instance(value, member) for member in typing.get_args(hint))
    if origin in type_hints.LISTS:
        return isinstance(value, (list, tuple))
    if origin in type_hints.OBJECTS or typing.is_typeddict(origin):
        return isinstance(value, Mapping)
    return not isinstance(origin, type) or isinstance(value, origin)


def _plain(value: Any) -> Any:
    """A value that msgspec can write, for one that it cannot."""
    if value is None or isinstance(value, bool):
        # Only as an object's key.
        return json.dumps(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    for kind in (str, int, float):
        if isinstance(value, kind) and not isinstance(value, enum.Enum):
            return kind(value)
    if isinstance(value, Mapping):
        return dict(value)
    # Scalars and arrays of numpy.
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
