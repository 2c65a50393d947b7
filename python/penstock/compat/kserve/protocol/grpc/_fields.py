"""What a message's fields are: their numbers, names and kinds, and how the protocol buffers' tools see them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.compat.kserve.protocol.grpc._message import Message

__all__ = ["Field", "Kind", "choice", "many", "mapped", "one"]


class Kind(Enum):
    """The kinds of values, with the numbers of their type and of their C++ type in descriptors."""

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
"""The values of fields that are not set; 0 where there is none."""


@dataclass(frozen=True)
class Field:
    """One field of a message."""

    number: int
    name: str
    kind: Kind
    repeated: bool = False
    message: type[Message] | None = None
    """The class of its values, if they are messages."""
    is_map: bool = False
    """Whether it maps texts to those messages."""
    oneof: str | None = None
    """The choice that it is one of."""

    @property
    def default(self) -> Any:
        """Its value where it is not set."""
        return DEFAULTS.get(self.kind, 0)

    @property
    def plain(self) -> bool:
        """Whether it is one value that is no message."""
        return not self.repeated and self.kind is not Kind.MESSAGE


def one(number: int, name: str, kind: Kind | type[Message]) -> Field:
    """A field with one value."""
    return Field(number, name, kind) if isinstance(kind, Kind) else Field(number, name, Kind.MESSAGE, message=kind)


def many(number: int, name: str, kind: Kind | type[Message]) -> Field:
    """A field with any number of values."""
    if isinstance(kind, Kind):
        return Field(number, name, kind, repeated=True)
    return Field(number, name, Kind.MESSAGE, repeated=True, message=kind)


def mapped(number: int, name: str, kind: type[Message]) -> Field:
    """A field that maps texts to messages."""
    return Field(number, name, Kind.MESSAGE, repeated=True, message=kind, is_map=True)


def choice(oneof: str, *fields: Field) -> tuple[Field, ...]:
    """Fields of which one is set at most."""
    return tuple(Field(field.number, field.name, field.kind, oneof=oneof) for field in fields)
