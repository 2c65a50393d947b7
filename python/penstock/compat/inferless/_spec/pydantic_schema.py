"""Pydantic classes that declare an app's inputs and outputs."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from penstock import InvalidInput
from penstock.compat.inferless._spec.schema import SchemaError, Tensor

__all__ = ["request_object", "tensors_of"]

_WIRE = {str: "BYTES", bool: "BOOL", int: "INT32", float: "FP64"}
"""Datatypes that Inferless assigns to field types."""
_EXAMPLES: dict[type, Any] = {str: "A sample line", int: 1, float: 0.5, bool: True}


def tensors_of(cls: Any) -> tuple[Tensor, ...]:
    """Returns a tensor for each field of a pydantic class.

    A field is required unless it may be None or has a default.

    Raises:
        SchemaError: a field's type has no datatype, or the class is not a pydantic 2 model.
    """
    fields = getattr(cls, "model_fields", None)
    if not isinstance(fields, dict):
        raise SchemaError(f"{cls.__name__} is not a pydantic 2 model, which has model_fields")
    return tuple(_tensor(cls.__name__, name, one) for name, one in fields.items())


def request_object(cls: Any, values: Mapping[str, Any]) -> Any:
    """Returns an object of an app's request class.

    Raises:
        InvalidInput: the class rejects the values.
    """
    from pydantic import ValidationError

    # pydantic requires a value for an optional field without a default.
    absent = {name: None for name, one in cls.model_fields.items() if one.is_required() and name not in values}
    try:
        return cls(**absent, **values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        location = ".".join(map(str, first["loc"])) or cls.__name__
        raise InvalidInput(f"input '{location}': {first['msg']}") from None


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
    """Returns an annotation without `None`, and whether it had `None`."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    parts = [one for one in typing.get_args(annotation) if one is not type(None)]
    has_none = len(parts) < len(typing.get_args(annotation))
    return (parts[0] if len(parts) == 1 else annotation), has_none
