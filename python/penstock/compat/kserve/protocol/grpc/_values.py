"""Values of fields: type checks, and containers of repeated fields and maps."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock.compat.kserve.protocol.grpc._fields import Field, Kind

__all__ = ["MessageMap", "Repeated", "RepeatedMessages", "checked"]

_RANGES = {
    Kind.INT32: (-(2**31), 2**31),
    Kind.INT64: (-(2**63), 2**63),
    Kind.UINT32: (0, 2**32),
    Kind.UINT64: (0, 2**64),
}


def checked(field: Field, value: Any) -> Any:
    """Returns a value in the form of its field.

    Raises:
        TypeError: the value has another type.
        ValueError: the value is out of the field's range.
    """
    kind = field.kind
    if kind in _RANGES:
        low, end = _RANGES[kind]
        number = operator.index(value)
        if not low <= number < end:
            raise ValueError(f"Value out of range: {value}")
        return number
    if kind is Kind.BOOL:
        return bool(operator.index(value)) if not isinstance(value, np.bool_) else bool(value)
    if kind is Kind.STRING:
        return _text(value)
    if kind is Kind.BYTES:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"expected bytes, {type(value).__name__} found")
        return bytes(value)
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return float(np.float32(value)) if kind is Kind.FLOAT else float(value)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"bad argument type for built-in operation: got {type(value).__name__}, expected text")
    return value


class Repeated(list[Any]):
    """The values of a repeated field: a list with type checks."""

    def __init__(self, field: Field, values: Iterable[Any] = ()) -> None:
        super().__init__(_all(field, values))
        self._field = field

    def append(self, value: Any) -> None:
        """Appends a value."""
        super().append(checked(self._field, value))

    def extend(self, values: Iterable[Any]) -> None:
        """Appends values."""
        super().extend(_all(self._field, values))

    def insert(self, index: Any, value: Any) -> None:
        """Inserts a value."""
        super().insert(index, checked(self._field, value))

    def __setitem__(self, index: Any, value: Any) -> None:
        several = isinstance(index, slice)
        super().__setitem__(index, _all(self._field, value) if several else checked(self._field, value))

    def __iadd__(self, values: Iterable[Any]) -> Any:  # type: ignore[misc] # what `+` gives is a plain list
        self.extend(values)
        return self

    def MergeFrom(self, other: Iterable[Any]) -> None:
        """Appends the values of another field."""
        self.extend(other)

    def __reduce__(self) -> Any:
        return (Repeated, (self._field, [*self]))


def _all(field: Field, values: Iterable[Any]) -> list[Any]:
    if isinstance(values, np.ndarray):
        values = values.tolist()
    found = list(values)
    kinds = set(map(type, found))
    if field.kind is Kind.FLOAT and kinds <= {int, float}:
        rounded: list[Any] = np.array(found, dtype=np.float64).astype(np.float32).astype(np.float64).tolist()
        return rounded
    if field.kind in _RANGES and kinds == {int}:
        # Least and greatest suffice.
        checked(field, min(found)), checked(field, max(found))
        return found
    return [checked(field, value) for value in found]


class RepeatedMessages(list[Any]):
    """The messages of a repeated field."""

    def __init__(self, field: Field, values: Iterable[Any] = ()) -> None:
        assert field.message is not None
        self._field, self._message = field, field.message
        super().__init__(self._message._of(value) for value in values)

    def add(self, **values: Any) -> Any:
        """Appends and returns a new message."""
        message = self._message(**values)
        super().append(message)
        return message

    def append(self, value: Any) -> None:
        """Appends a copy of a message."""
        super().append(self._message._of(value))

    def extend(self, values: Iterable[Any]) -> None:
        """Appends copies of messages."""
        super().extend([self._message._of(value) for value in values])

    def MergeFrom(self, other: Iterable[Any]) -> None:
        """Appends copies of another field's messages."""
        self.extend(other)

    def __reduce__(self) -> Any:
        return (RepeatedMessages, (self._field, [*self]))


class MessageMap(dict[str, Any]):
    """Messages by name; access to a missing key creates its message."""

    def __init__(self, field: Field, values: Any = ()) -> None:
        assert field.message is not None
        self._field, self._message = field, field.message
        super().__init__({_text(key): self._message._of(value) for key, value in dict(values).items()})

    def __missing__(self, key: str) -> Any:
        return self.get_or_create(key)

    def __setitem__(self, key: str, value: Any) -> None:
        raise ValueError("Direct assignment of submessage not allowed: change the message that is at the key")

    def get_or_create(self, key: str) -> Any:
        """Returns the message of a key, created if missing."""
        if key not in self:
            super().__setitem__(_text(key), self._message())
        return self[key]

    def MergeFrom(self, other: Any) -> None:
        """Copies another map's messages into this one."""
        for key, value in dict(other).items():
            super().__setitem__(key, self._message._of(value))

    def __reduce__(self) -> Any:
        return (MessageMap, (self._field, dict(self)))
