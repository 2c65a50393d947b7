"""JSON values, read according to annotations."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Union

__all__ = ["Between", "Problem", "ValidationError", "read"]

_TEXTS = {str: "string", int: "integer", float: "number", bool: "boolean", list: "list", dict: "dictionary"}


class Between(NamedTuple):
    """Bounds of a number, as `Annotated[int, Between(1, 128)]`."""

    least: float
    most: float


class Problem(NamedTuple):
    """A problem with a member."""

    kind: str
    where: tuple[str | int, ...]
    message: str
    given: Any

    def as_dict(self, root: tuple[str | int, ...] = ()) -> dict[str, Any]:
        """Returns the problem in pydantic's form."""
        return {"type": self.kind, "loc": [*root, *self.where], "msg": self.message, "input": self.given}


class ValidationError(ValueError):
    """Members are missing or have other types."""

    def __init__(self, title: str, problems: list[Problem]) -> None:
        self.title, self.problems = title, problems
        lines = [f"{'.'.join(map(str, one.where)) or 'body'}: {one.message}" for one in problems]
        super().__init__(f"{title}: {'; '.join(lines)}")

    def errors(self) -> list[dict[str, Any]]:
        """Returns a dict per problem: type, loc, msg and input."""
        return [one.as_dict() for one in self.problems]


def read(value: Any, hint: Any, problems: list[Problem], where: tuple[str | int, ...]) -> Any:
    """Returns the value in the form of its annotation; adds problems to `problems`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin is typing.Annotated:
        return _bounded(read(value, arguments[0], problems, where), hint.__metadata__[0], problems, where)
    if origin in (Union, types.UnionType):
        return _one_of(value, arguments, problems, where)
    if origin is Literal:
        if value not in arguments:
            listed = " or ".join(repr(one) for one in arguments)
            problems.append(Problem("literal_error", where, f"Input should be {listed}", value))
        return value
    if origin is list:
        if not isinstance(value, list | tuple):
            return _wrong(value, list, problems, where)
        return [read(one, arguments[0], problems, (*where, index)) for index, one in enumerate(value)]
    if origin is dict:
        if not isinstance(value, Mapping):
            return _wrong(value, dict, problems, where)
        return {name: read(one, arguments[1], problems, (*where, name)) for name, one in value.items()}
    if hasattr(hint, "_read"):
        return hint._read(value, problems, where)
    return _scalar(value, hint, problems, where)


def _scalar(value: Any, kind: type, problems: list[Problem], where: tuple[str | int, ...]) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    return _wrong(value, kind, problems, where)


def _wrong(value: Any, kind: type, problems: list[Problem], where: tuple[str | int, ...]) -> Any:
    name = {int: "int", bool: "bool", str: "string"}.get(kind, kind.__name__)
    problems.append(Problem(f"{name}_type", where, f"Input should be a valid {_TEXTS.get(kind, name)}", value))
    return value


def _one_of(value: Any, members: tuple[Any, ...], problems: list[Problem], where: tuple[str | int, ...]) -> Any:
    if value is None and type(None) in members:
        return None
    first: list[Problem] = []
    for member in members:
        if member is type(None):
            continue
        found: list[Problem] = []
        known = read(value, member, found, where)
        if not found:
            return known
        first = first or found
    problems.extend(first)
    return value


def _bounded(value: Any, bounds: Between, problems: list[Problem], where: tuple[str | int, ...]) -> Any:
    if isinstance(value, int | float):
        if value < bounds.least:
            text = f"Input should be greater than or equal to {bounds.least:g}"
            problems.append(Problem("greater_than_equal", where, text, value))
        elif value > bounds.most:
            problems.append(
                Problem("less_than_equal", where, f"Input should be less than or equal to {bounds.most:g}", value)
            )
    return value
