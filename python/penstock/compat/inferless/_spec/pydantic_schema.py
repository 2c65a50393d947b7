"""Inputs and outputs that an app declares by pydantic classes, read from their fields."""

from __future__ import annotations

import types
import typing
from typing import Any

from penstock.compat.inferless._spec.schema import SchemaError, Tensor

__all__ = ["tensors_of"]

_WIRE = {str: "BYTES", bool: "BOOL", int: "INT32", float: "FP64"}
"""The datatypes that Inferless gives to fields."""
_EXAMPLES: dict[type, Any] = {str: "A sample line", int: 1, float: 0.5, bool: True}


def tensors_of(cls: Any) -> tuple[Tensor, ...]:
    """The tensors that the fields of a pydantic class stand for.

    A field is required unless it may be None or has a default.

    Raises:
        SchemaError: a field is of a type that no tensor has, or the class is none of pydantic's second version.
    """
    fields = getattr(cls, "model_fields", None)
    if not isinstance(fields, dict):
        raise SchemaError(f"{cls.__name__} is no class of pydantic 2, which has model_fields")
    return tuple(_tensor(cls.__name__, name, one) for name, one in fields.items())


def _tensor(owner: str, name: str, one: Any) -> Tensor:
    kind, optional = _without_none(one.annotation)
    is_list = typing.get_origin(kind) is list or kind is list
    if is_list:
        inner = typing.get_args(kind)
        kind = _without_none(inner[0])[0] if inner else str
    if kind not in _WIRE:
        raise SchemaError(
            f"{owner}.{name} is a {getattr(kind, '__name__', kind)}, expected str, int, float, bool, "
            "or a list of one of these; send anything else as a str of JSON"
        )
    required = not optional and one.is_required()
    example = _EXAMPLES[kind] if one.is_required() else one.get_default(call_default_factory=True)
    return Tensor(name, _WIRE[kind], (-1,) if is_list else (1,), required, example)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """An annotation without its `None`, and whether it had one."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    parts = [one for one in typing.get_args(annotation) if one is not type(None)]
    has_none = len(parts) < len(typing.get_args(annotation))
    return (parts[0] if len(parts) == 1 else annotation), has_none
