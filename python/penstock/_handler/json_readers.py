"""Readers of parsed JSON, compiled from type hints at load.

A reader takes a value and a path for messages, checks the value, and builds an object of the hint's type.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union

from penstock._handler import type_hints
from penstock.errors import InvalidInput, SignatureError

Reader = Callable[[Any, str], Any]

LISTS = (list, collections.abc.Sequence, collections.abc.Iterable)
OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
UNIONS = (Union, types.UnionType)


def compile_reader(hint: Any, where: str) -> Reader:
    """The reader of a hint.

    Raises:
        SignatureError: JSON has no such value; the message begins with `where`.
    """
    return _compile(hint, where, {})


def required_fields(hint: Any) -> set[str]:
    if hasattr(hint, "model_fields"):
        return {name for name, field in hint.model_fields.items() if field.is_required()}
    if dataclasses.is_dataclass(hint):
        return {field.name for field in dataclasses.fields(hint) if field.init and _has_no_default(field)}
    return set(hint.__required_keys__)


def is_record(hint: Any) -> bool:
    return isinstance(hint, type) and (
        dataclasses.is_dataclass(hint) or typing.is_typeddict(hint) or hasattr(hint, "model_validate")
    )


def _has_no_default(entry: dataclasses.Field[Any]) -> bool:
    return entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING


def unqualified(hint: Any) -> Any:
    # TypedDict's Required[X] and NotRequired[X], which typing has from Python 3.11 on.
    named = getattr(typing.get_origin(hint), "_name", None)
    return typing.get_args(hint)[0] if named in ("Required", "NotRequired", "ReadOnly") else hint


def one_line(error: BaseException) -> str:
    # The text of a pydantic error has several lines and a URL.
    if callable(details := getattr(error, "errors", None)):
        lines = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}".removeprefix(": ") for item in details()[:4]]
        return "; ".join(lines)
    return " ".join(str(error).split()) or type(error).__name__


def _compile(hint: Any, where: str, seen: dict[Any, Reader]) -> Reader:
    hint = type_hints.unaliased(hint)
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is typing.Annotated:
        return _compile(arguments[0], where, seen)
    if hint is Any or hint is object:
        return lambda value, path: value
    if hint in _SCALARS:
        return _SCALARS[hint]
    if origin in UNIONS:
        return _compile_union(hint, arguments, where, seen)
    if origin is Literal:
        return _one_of(arguments, {argument: argument for argument in arguments})
    if origin in LISTS:
        return _list_of(_compile(arguments[0] if arguments else Any, where, seen))
    if origin in OBJECTS:
        return _compile_object(hint, arguments, where, seen)
    if is_record(hint):
        return _compile_record(hint, where, seen)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        members = {member.value: member for member in hint}
        return _one_of(tuple(members), members)
    raise SignatureError(
        f"{where} is {type_hints.show(hint)}, which JSON cannot hold: use bool, int, float, str, list, dict, Literal, "
        "an Enum, a dataclass, a TypedDict or a pydantic model"
    )


def _compile_union(hint: Any, members: tuple[Any, ...], where: str, seen: dict[Any, Reader]) -> Reader:
    others = [member for member in members if member is not type(None)]
    if len(others) != 1 or len(others) == len(members):
        raise SignatureError(f"{where} is {type_hints.show(hint)}: of unions, only `X | None` can be read from JSON")
    read = _compile(others[0], where, seen)
    return lambda value, path: None if value is None else read(value, path)


def _compile_object(hint: Any, arguments: tuple[Any, ...], where: str, seen: dict[Any, Reader]) -> Reader:
    if arguments and arguments[0] not in (str, Any):
        raise SignatureError(f"{where} is {type_hints.show(hint)}: the keys of a JSON object are str")
    read = _compile(arguments[1] if arguments else Any, where, seen)

    def read_object(value: Any, path: str) -> Any:
        _expect(isinstance(value, dict), value, path, "an object")
        return {key: read(item, f"{path}, key {key!r}") for key, item in value.items()}

    return read_object


def _compile_record(hint: Any, where: str, seen: dict[Any, Reader]) -> Reader:
    if hint in seen:
        # A class that refers to itself: its reader is not complete yet, so it is looked up at each call.
        return lambda value, path: seen[hint](value, path)  # noqa: PLW0108
    if hasattr(hint, "model_validate"):
        seen[hint] = lambda value, path: _build(path, hint.model_validate, value)
        return seen[hint]
    seen[hint] = _unfinished
    where = f"{where}: {hint.__name__}"
    try:
        hints = typing.get_type_hints(hint, include_extras=True)
    except NameError as error:
        raise SignatureError(f"{where} has an annotation that cannot be resolved: {error}") from None
    if dataclasses.is_dataclass(hint):
        names = {field.name for field in dataclasses.fields(hint) if field.init}
    else:
        names = set(hints)
    readers = {name: _compile(unqualified(hints[name]), f"{where}.{name}", seen) for name in hints if name in names}
    seen[hint] = _record_reader(hint, readers, required_fields(hint))
    return seen[hint]


def _record_reader(build: Any, readers: Mapping[str, Reader], required: set[str]) -> Reader:
    def read_record(value: Any, path: str) -> Any:
        _expect(isinstance(value, dict), value, path, "an object")
        for name in sorted(required.difference(value)):
            raise InvalidInput(f"{path}: field {name!r} is missing")
        for name in value:
            if name not in readers:
                raise InvalidInput(f"{path}: unexpected field {name!r}, expected {', '.join(map(repr, readers))}")
        fields = {name: readers[name](item, f"{path}, field {name!r}") for name, item in value.items()}
        return _build(path, lambda values: build(**values), fields)

    return read_record


def _build(path: str, build: Callable[[Any], Any], value: Any) -> Any:
    # ValueError is a class's rejection of the value, as in pydantic. Other exceptions are defects of the class.
    try:
        return build(value)
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"{path}: {one_line(error)}") from None


def _list_of(read: Reader) -> Reader:
    def read_list(value: Any, path: str) -> Any:
        _expect(isinstance(value, list), value, path, "an array")
        return [read(item, f"{path}, item {index}") for index, item in enumerate(value)]

    return read_list


def _one_of(choices: tuple[Any, ...], values: Mapping[Any, Any]) -> Reader:
    expected = f"one of {', '.join(json.dumps(choice, default=repr) for choice in choices)}"

    def read_choice(value: Any, path: str) -> Any:
        # 1 and True are equal, but different choices.
        match = [values[choice] for choice in choices if choice == value and type(choice) is type(value)]
        _expect(bool(match), value, path, expected)
        return match[0]

    return read_choice


def _scalar(kind: type, expected: str) -> Reader:
    def read_scalar(value: Any, path: str) -> Any:
        _expect(type(value) is kind, value, path, expected)
        return value

    return read_scalar


def _read_float(value: Any, path: str) -> float:
    _expect(type(value) in (int, float), value, path, "a number")
    try:
        return float(value)
    except OverflowError:
        raise InvalidInput(f"{path} is too large for a double") from None


_SCALARS: dict[Any, Reader] = {
    bool: _scalar(bool, "true or false"),
    int: _scalar(int, "an integer"),
    float: _read_float,
    str: _scalar(str, "a string"),
    type(None): _scalar(type(None), "null"),
    None: _scalar(type(None), "null"),
}


def _expect(holds: bool, value: Any, path: str, expected: str) -> None:
    if not holds:
        raise InvalidInput(f"{path} must be {expected}, got {_json_name(value)}")


def _json_name(value: Any) -> str:
    names = {bool: "a boolean", str: "a string", list: "an array", dict: "an object", type(None): "null"}
    return names.get(type(value)) or f"the number {value!r:.40}"


def _unfinished(value: Any, path: str) -> Any:
    raise AssertionError("the reader of a class is used while it is compiled")
