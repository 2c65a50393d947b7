"""`Fields`: objects with declared members, read from and written as JSON by pydantic's method names."""

from __future__ import annotations

import copy
import inspect
import json
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.compat.kserve.protocol.rest.openai.types._parsing import Problem, ValidationError, read

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Fields", "ValidationError", "default_factory"]

_MISSING = object()
_HIDDEN = "model_fields_set", "_context"


class _DefaultFactory:
    """A default that is created per object."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def default_factory(make: Callable[[], Any]) -> Any:
    """Returns a member's default that `make` creates per object."""
    return _DefaultFactory(make)


class Fields:
    """Members by annotation, with defaults; undeclared members are retained.

    Example:
        >>> class Point(Fields):
        ...     x: int
        ...     y: int = 0
        >>> Point(x=1).model_dump()
        {'x': 1, 'y': 0}
    """

    # Annotations of subclasses are evaluated in this class's scope, where `dict` is a method: they must not name it.
    _defaults: ClassVar[Any] = {}
    _hints: ClassVar[Any] = None
    model_fields_set: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = {}
        for name in inspect.get_annotations(cls):
            if name.startswith("_") or name == "model_fields_set":
                continue
            own[name] = cls.__dict__.get(name, _MISSING)
            if own[name] is not _MISSING:
                # Removed from the class: an object without the member must raise, not show the class's default.
                delattr(cls, name)
        cls._defaults, cls._hints = {**cls._defaults, **own}, None

    def __init__(self, /, **given: Any) -> None:
        problems: list[Problem] = []
        self._fill(given, problems, ())
        if problems:
            raise ValidationError(type(self).__name__, problems)

    @classmethod
    def _types(cls) -> Any:
        if cls._hints is None:
            cls._hints = {
                name: hint
                for name, hint in typing.get_type_hints(cls, include_extras=True).items()
                if name in cls._defaults
            }
        return cls._hints

    @classmethod
    def _read(cls, value: Any, problems: list[Problem], where: tuple[str | int, ...]) -> Any:
        """Returns an object of this class from a JSON value, a script's object or a pydantic model."""
        if isinstance(value, cls):
            return value
        if hasattr(value, "model_dump"):
            value = value.model_dump()
        if not isinstance(value, Mapping):
            problems.append(Problem("model_type", where, "Input should be a valid dictionary", value))
            return None
        found = cls.__new__(cls)
        found._fill(value, problems, where)
        return found

    def _fill(self, given: Mapping[str, Any], problems: list[Problem], where: tuple[str | int, ...]) -> None:
        members, types = self.__dict__, self._types()
        for name, default in self._defaults.items():
            if name in given:
                members[name] = read(given[name], types[name], problems, (*where, name))
            elif default is _MISSING:
                problems.append(Problem("missing", (*where, name), "Field required", dict(given)))
            else:
                members[name] = default.make() if isinstance(default, _DefaultFactory) else copy.copy(default)
        members.update((name, value) for name, value in given.items() if name not in members)
        members["model_fields_set"] = set(given)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value
        self.model_fields_set.add(name)

    @property
    def model_extra(self) -> dict[str, Any]:
        """The undeclared members."""
        return {name: value for name, value in self._members() if name not in self._defaults}

    def _members(self) -> list[tuple[str, Any]]:
        """Returns all members: declared ones first, in order of declaration."""
        members = self.__dict__
        others = (name for name in members if name not in self._defaults and name not in _HIDDEN)
        return [(name, members[name]) for name in (*(one for one in self._defaults if one in members), *others)]

    def model_dump(
        self,
        *,
        include: Any = None,
        exclude: Any = None,
        exclude_unset: bool = False,
        exclude_defaults: bool = False,
        exclude_none: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        """Returns the members as a dict, nested objects too."""
        dumped = {}
        how = {"exclude_unset": exclude_unset, "exclude_defaults": exclude_defaults, "exclude_none": exclude_none}
        for name, value in self._members():
            left_out = (include is not None and name not in include) or (exclude is not None and name in exclude)
            unset = exclude_unset and name not in self.model_fields_set
            default = exclude_defaults and value == self._defaults.get(name, _MISSING)
            if not (left_out or unset or default or (exclude_none and value is None)):
                dumped[name] = _plain(value, how)
        return dumped

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        """Returns the members as JSON text, without spaces unless indented."""
        separators = (",", ":") if indent is None else None
        return json.dumps(self.model_dump(**options), ensure_ascii=False, indent=indent, separators=separators)

    @classmethod
    def model_validate(cls, obj: Any, **_: Any) -> Self:
        """Returns the object of a dict, or of another object with such members.

        Raises:
            ValidationError: a member is missing or has another type.
        """
        problems: list[Problem] = []
        found: Self = cls._read(obj, problems, ())
        if problems:
            raise ValidationError(cls.__name__, problems)
        return found

    @classmethod
    def model_validate_json(cls, json_data: str | bytes, **_: Any) -> Self:
        """Returns the object of a JSON text."""
        try:
            obj = json.loads(json_data)
        except ValueError as error:
            raise ValidationError(
                cls.__name__, [Problem("json_invalid", (), f"Invalid JSON: {error}", json_data)]
            ) from None
        return cls.model_validate(obj)

    @classmethod
    def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
        """Returns an object of these members, without validation."""
        found = cls.__new__(cls)
        for name, default in cls._defaults.items():
            if name not in values and default is not _MISSING:
                found.__dict__[name] = default.make() if isinstance(default, _DefaultFactory) else copy.copy(default)
        found.__dict__.update(values)
        found.__dict__["model_fields_set"] = set(values) if _fields_set is None else set(_fields_set)
        return found

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Returns a copy, with other values for some members."""
        found = copy.deepcopy(self) if deep else copy.copy(self)
        found.__dict__["model_fields_set"] = {*self.model_fields_set, *(update or ())}
        found.__dict__.update(update or {})
        return found

    dict = model_dump
    json = model_dump_json
    copy = model_copy
    parse_obj = model_validate
    parse_raw = model_validate_json

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._members() == other._members()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._members())})"


def _plain(value: Any, how: Mapping[str, bool]) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one, how) for one in value]
    if isinstance(value, Mapping):
        return {name: _plain(one, how) for name, one in value.items()}
    return value.model_dump(**how) if hasattr(value, "model_dump") else value
