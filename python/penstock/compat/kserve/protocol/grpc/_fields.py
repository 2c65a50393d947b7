"""Field declarations of messages: numbers, names and kinds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol

__all__ = ["Field", "FieldMessage", "Kind", "many", "mapped", "one", "one_of"]


class Kind(Enum):
    """Kinds of values, with their type and C++ type numbers in descriptors."""

    DOUBLE = (1, 5)
    FLOAT = (2, 6)
    INT64 = (3, 2)
    UINT64 = (4, 4)
    INT32 = (5, 1)
    BOOL = (8, 7)
    STRING = (9, 9)
    MESSAGE = (11, 10)
    BYTES = (12, 9)
    UINT32 = (13, 3)


DEFAULTS: dict[Kind, Any] = {
    Kind.DOUBLE: 0.0,
    Kind.FLOAT: 0.0,
    Kind.BOOL: False,
    Kind.STRING: "",
    Kind.BYTES: b"",
}
"""Default values of fields; 0 for kinds that are not listed."""


class FieldMessage(Protocol):
    """`Message` as the modules of its fields see it."""

    FIELDS: ClassVar[Any]
    """A tuple of `Field`."""
    FULL_NAME: ClassVar[str]

    def __init__(self, **values: Any) -> None: ...

    @classmethod
    def _of(cls, value: Any) -> Any:
        """Returns a message of this class, from a dict or another message."""

    def _set_fields(self) -> list[Field]:
        """Returns the fields that are set."""


@dataclass(frozen=True)
class Field:
    """One field of a message."""

    number: int
    name: str
    kind: Kind
    repeated: bool = False
    message: type[FieldMessage] | None = None
    """The class of values that are messages."""
    is_map: bool = False
    """True for a map from text to those messages."""
    oneof: str | None = None
    """The oneof that the field belongs to."""

    @property
    def default(self) -> Any:
        """The value of an unset field."""
        return DEFAULTS.get(self.kind, 0)

    @property
    def plain(self) -> bool:
        """True for a single value that is not a message."""
        return not self.repeated and self.kind is not Kind.MESSAGE


def one(number: int, name: str, kind: Kind | type[FieldMessage]) -> Field:
    """Returns a field with one value."""
    return Field(number, name, kind) if isinstance(kind, Kind) else Field(number, name, Kind.MESSAGE, message=kind)


def many(number: int, name: str, kind: Kind | type[FieldMessage]) -> Field:
    """Returns a repeated field."""
    if isinstance(kind, Kind):
        return Field(number, name, kind, repeated=True)
    return Field(number, name, Kind.MESSAGE, repeated=True, message=kind)


def mapped(number: int, name: str, kind: type[FieldMessage]) -> Field:
    """Returns a field that maps text to messages."""
    return Field(number, name, Kind.MESSAGE, repeated=True, message=kind, is_map=True)


def one_of(oneof: str, *fields: Field) -> tuple[Field, ...]:
    """Returns the fields of a oneof."""
    return tuple(Field(field.number, field.name, field.kind, oneof=oneof) for field in fields)
