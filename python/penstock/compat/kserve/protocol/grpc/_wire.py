"""Wire format of messages."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from penstock.compat.kserve.protocol.grpc._fields import Field, FieldMessage, Kind
from penstock.compat.kserve.protocol.grpc._varints import decoded, encoded, number

__all__ = ["DecodeError", "read", "written"]

_VARINT, _FIXED64, _LENGTH, _GROUP, _END, _FIXED32 = range(6)
_FIXED: dict[Kind, tuple[int, str]] = {Kind.DOUBLE: (_FIXED64, "<f8"), Kind.FLOAT: (_FIXED32, "<f4")}
_CASTS = {
    Kind.BOOL: np.bool_,
    Kind.INT32: np.int32,
    Kind.INT64: np.int64,
    Kind.UINT32: np.uint32,
    Kind.UINT64: np.uint64,
}
"""The numpy type to which a varint's 64 bits are cut."""
_DEPTH = 100
"""Nesting limit of messages, protobuf's default."""


class DecodeError(ValueError):
    """The bytes are not a message of the type."""


def written(message: FieldMessage) -> bytes:
    """Returns a message's bytes."""
    parts: list[bytes] = []
    for field in message._set_fields():
        value = message.__dict__[field.name]
        if field.is_map:
            for key, one in value.items():
                _put(parts, field, _entry(key, one))
        elif field.kind is Kind.MESSAGE:
            for one in value if field.repeated else [value]:
                _put(parts, field, written(one))
        elif field.repeated and field.kind not in (Kind.STRING, Kind.BYTES):
            _put(parts, field, _packed(field.kind, value))
        else:
            for one in value if field.repeated else [value]:
                _write_plain(parts, field, one)
    return b"".join(parts)


def _entry(key: str, value: FieldMessage) -> bytes:
    parts: list[bytes] = []
    for field, data in ((1, key.encode()), (2, written(value))):
        parts += [_varint(field << 3 | _LENGTH), _varint(len(data)), data]
    return b"".join(parts)


def _put(parts: list[bytes], field: Field, data: bytes) -> None:
    parts += [_varint(field.number << 3 | _LENGTH), _varint(len(data)), data]


def _write_plain(parts: list[bytes], field: Field, value: Any) -> None:
    if field.kind is Kind.STRING:
        _put(parts, field, value.encode())
    elif field.kind is Kind.BYTES:
        _put(parts, field, value)
    elif field.kind in _FIXED:
        wire, form = _FIXED[field.kind]
        parts += [_varint(field.number << 3 | wire), struct.pack("<" + {"8": "d", "4": "f"}[form[-1]], value)]
    else:
        parts += [_varint(field.number << 3 | _VARINT), _varint(value)]


def _packed(kind: Kind, values: list[Any]) -> bytes:
    if kind in _FIXED:
        return np.array(values, dtype=_FIXED[kind][1]).tobytes()
    return encoded(np.array(values, dtype=np.uint64 if kind is Kind.UINT64 else np.int64))


def _varint(value: int) -> bytes:
    return number(value & 2**64 - 1)


def read(message: FieldMessage, data: bytes, depth: int = 0) -> None:
    """Merges the values of bytes into a message.

    Raises:
        DecodeError: the bytes are not such a message.
    """
    try:
        _read(message, memoryview(data), depth)
    except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, DecodeError):
            raise
        raise DecodeError(f"Error parsing message with type '{message.FULL_NAME}': {error}") from None


def _read(message: FieldMessage, data: memoryview, depth: int) -> None:
    if depth > _DEPTH:
        raise DecodeError(f"messages are nested more than {_DEPTH} deep")
    fields = {field.number: field for field in message.FIELDS}
    at = 0
    while at < len(data):
        name, wire, at = _tag(data, at)
        value, at = _value(data, at, wire, name)
        field = fields.get(name)
        # A field of another wire type counts as unknown.
        if field is not None and wire in _wires(field):
            _take(message, field, wire, value, depth)


def _tag(data: memoryview, at: int) -> tuple[int, int, int]:
    """Returns number and wire type of the field at `at`, and the position of its value."""
    tag, at = _number(data, at)
    if not 0 < tag >> 3 < 2**29:
        raise ValueError(f"invalid field number {tag >> 3}")
    return tag >> 3, tag & 7, at


def _wires(field: Field) -> tuple[int, ...]:
    if field.kind in (Kind.STRING, Kind.BYTES, Kind.MESSAGE):
        return (_LENGTH,)
    alone = _FIXED[field.kind][0] if field.kind in _FIXED else _VARINT
    return (alone, _LENGTH) if field.repeated else (alone,)


def _value(data: memoryview, at: int, wire: int, field: int) -> tuple[Any, int]:
    """Returns the value at `at` and the position after it; None for a group, which is deprecated."""
    if wire == _VARINT:
        return _number(data, at)
    if wire == _GROUP:
        return None, _end_of_group(data, at, field)
    if wire == _LENGTH:
        length, at = _number(data, at)
    elif wire in (_FIXED64, _FIXED32):
        length = 8 if wire == _FIXED64 else 4
    else:
        raise ValueError(f"unknown wire type {wire}")
    if at + length > len(data):
        raise ValueError(f"a value of {length} bytes is truncated to {len(data) - at}")
    return data[at : at + length], at + length


def _end_of_group(data: memoryview, at: int, group: int, depth: int = 0) -> int:
    if depth > _DEPTH:
        raise ValueError(f"groups are nested more than {_DEPTH} deep")
    while True:
        name, wire, at = _tag(data, at)
        if wire == _END:
            if name != group:
                raise ValueError("unexpected end of a group")
            return at
        if wire == _GROUP:
            at = _end_of_group(data, at, name, depth + 1)
        else:
            _, at = _value(data, at, wire, name)


def _number(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        group = data[at]
        at += 1
        value |= (group & 0x7F) << shift
        if group < 0x80:
            return value & (2**64 - 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than ten bytes")


def _take(message: FieldMessage, field: Field, wire: int, value: Any, depth: int) -> None:
    if field.is_map:
        _take_entry(message, field, value, depth)
    elif field.kind is Kind.MESSAGE:
        data = bytes(value)
        target = getattr(message, field.name)
        if field.repeated:
            read(target.add(), data, depth + 1)
        else:
            target.SetInParent()
            read(target, data, depth + 1)
    elif field.repeated and field.kind not in (Kind.STRING, Kind.BYTES):
        target = getattr(message, field.name)
        list.extend(target, _several(field.kind, wire, value))
    elif field.repeated:
        getattr(message, field.name).append(bytes(value))
    else:
        setattr(message, field.name, _single(field.kind, wire, value))


def _take_entry(message: FieldMessage, field: Field, data: memoryview, depth: int) -> None:
    assert field.message is not None
    key, value = "", field.message()
    at = 0
    while at < len(data):
        name, wire, at = _tag(data, at)
        found, at = _value(data, at, wire, name)
        if (name, wire) == (1, _LENGTH):
            key = bytes(found).decode()
        elif (name, wire) == (2, _LENGTH):
            read(value, bytes(found), depth + 1)
    dict.__setitem__(getattr(message, field.name), key, value)


def _single(kind: Kind, wire: int, value: Any) -> Any:
    if kind in (Kind.STRING, Kind.BYTES):
        return bytes(value)
    return _several(kind, wire, value)[-1]


def _several(kind: Kind, wire: int, value: Any) -> list[Any]:
    """Returns the numbers of a value, packed or single."""
    if kind in _FIXED:
        numbers: list[Any] = np.frombuffer(value, dtype=_FIXED[kind][1]).tolist()
        return numbers
    if wire == _VARINT:
        return [_cast(kind, value)]
    many: list[Any] = decoded(value).astype(_CASTS[kind]).tolist()
    return many


def _cast(kind: Kind, found: int) -> Any:
    return np.array(found, dtype=np.uint64).astype(_CASTS[kind]).item()
