"""Descriptors of messages, as far as protobuf's tools use them to read and print messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.compat.kserve.protocol.grpc._fields import Field, FieldMessage, Kind

__all__ = ["field", "message"]

_OPTIONAL, _REPEATED = 1, 3


_DESCRIPTORS: dict[str, Any] = {}


def message(kind: type[FieldMessage]) -> Any:
    """Returns the descriptor of a message type."""
    if kind.FULL_NAME in _DESCRIPTORS:
        return _DESCRIPTORS[kind.FULL_NAME]
    descriptor = _DESCRIPTORS[kind.FULL_NAME] = _described(kind.FULL_NAME, is_map=False)
    descriptor.fields = [_of_message(kind, one) for one in kind.FIELDS]
    descriptor.fields_by_name = {one.name: one for one in descriptor.fields}
    descriptor.fields_by_number = {one.number: one for one in descriptor.fields}
    return descriptor


def field(kind: type[FieldMessage], one: Field) -> Any:
    """Returns the descriptor of a field."""
    return message(kind).fields_by_name[one.name]


def _of_message(kind: type[FieldMessage], one: Field) -> Any:
    inside = None
    if one.is_map:
        inside = _entry(f"{kind.FULL_NAME}.{_camel(one.name, first=True)}Entry", one)
    elif one.message is not None:
        inside = message(one.message)
    return _field(f"{kind.FULL_NAME}.{one.name}", one, inside)


def _entry(name: str, one: Field) -> Any:
    assert one.message is not None
    descriptor = _described(name, is_map=True)
    key, value = Field(1, "key", Kind.STRING), Field(2, "value", Kind.MESSAGE, message=one.message)
    descriptor.fields = [_field(f"{name}.key", key, None), _field(f"{name}.value", value, message(one.message))]
    descriptor.fields_by_name = {one.name: one for one in descriptor.fields}
    return descriptor


def _described(full_name: str, *, is_map: bool) -> Any:
    options = SimpleNamespace(map_entry=is_map, message_set_wire_format=False)
    return SimpleNamespace(
        full_name=full_name,
        name=full_name.rpartition(".")[2],
        file=SimpleNamespace(package="inference", name="", syntax="proto3", pool=None),
        is_extendable=False,
        has_options=is_map,
        extensions=[],
        enum_types_by_name={},
        GetOptions=lambda: options,
    )


def _field(full_name: str, one: Field, inside: Any) -> Any:
    number, cpp = one.kind.value
    options = SimpleNamespace(deprecated=False, jstype=0)
    return SimpleNamespace(
        full_name=full_name,
        name=one.name,
        camelcase_name=_camel(one.name),
        json_name=_camel(one.name),
        number=one.number,
        type=number,
        cpp_type=cpp,
        label=_REPEATED if one.repeated else _OPTIONAL,
        is_repeated=one.repeated,
        is_required=False,
        is_extension=False,
        is_packed=one.repeated and cpp < 9,
        default_value=None if one.message is not None else one.default,
        has_presence=not one.repeated and (one.message is not None or one.oneof is not None),
        has_default_value=False,
        containing_oneof=None if one.oneof is None else SimpleNamespace(name=one.oneof, fields=()),
        message_type=inside,
        enum_type=None,
        GetOptions=lambda: options,
    )


def _camel(name: str, *, first: bool = False) -> str:
    head, *rest = name.split("_")
    return (head.capitalize() if first else head) + "".join(part.capitalize() for part in rest)
