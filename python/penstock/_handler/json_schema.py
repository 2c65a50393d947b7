"""JSON Schema of a type hint: describes the documents that `json_readers` accepts."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import typing
from collections.abc import Mapping
from typing import Any, Literal

from penstock._handler import type_hints
from penstock._handler.json_readers import LISTS, OBJECTS, UNIONS, is_record, required_fields, unqualified

Schema = dict[str, Any]

_SCALARS: dict[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    type(None): {"type": "null"},
    None: {"type": "null"},
}


def text(hint: Any) -> str:
    """The schema of a hint, as JSON text; references in it begin with `#/$defs/`."""
    known = _Definitions()
    root = known.schema(hint)
    name = root.get("$ref", "").removeprefix("#/$defs/")
    # Inlines a class that is referred to once.
    if name in known.schemas and json.dumps(known.schemas).count(f'"{root["$ref"]}"') == 0:
        root = known.schemas.pop(name)
    return json.dumps({**root, "$defs": known.schemas} if known.schemas else root)


class _Definitions:
    """Schemas of the classes that a hint refers to, one for each class."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._names: dict[Any, str] = {}

    def schema(self, hint: Any) -> Schema:
        hint = type_hints.unaliased(hint)
        origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
        if origin is typing.Annotated:
            return self.schema(arguments[0])
        if hint in _SCALARS:
            return _SCALARS[hint]
        if origin in UNIONS:
            return {"anyOf": [self.schema(member) for member in arguments]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in LISTS:
            return {"type": "array", "items": self.schema(arguments[0])} if arguments else {"type": "array"}
        if origin in OBJECTS:
            values = {"additionalProperties": self.schema(arguments[1])} if arguments else {}
            return {"type": "object", **values}
        if is_record(hint):
            return self._reference(hint)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return {"title": hint.__name__, "enum": [member.value for member in hint]}
        return {}

    def _reference(self, hint: Any) -> Schema:
        if hint not in self._names:
            name = hint.__name__
            while name in self.schemas:
                name += "_"
            # Named before its schema is built: the class may refer to itself.
            self._names[hint], self.schemas[name] = name, {}
            self.schemas[name].update(self._record(hint, name))
        return {"$ref": f"#/$defs/{self._names[hint]}"}

    def _record(self, hint: Any, name: str) -> Schema:
        if hasattr(hint, "model_json_schema"):
            return self._of_pydantic(hint, name)
        hints = typing.get_type_hints(hint, include_extras=True)
        defaults = _defaults(hint)
        if defaults is not None:
            hints = {field: hints[field] for field in defaults}
        properties = {}
        for field, inner in hints.items():
            default = {"default": defaults[field]} if defaults and _is_plain(defaults[field]) else {}
            properties[field] = {**self.schema(unqualified(inner)), **default}
        required = required_fields(hint)
        described = type_hints.own_doc(hint)
        return {
            "title": hint.__name__,
            **({"description": described} if described else {}),
            "type": "object",
            "properties": properties,
            "required": [field for field in properties if field in required],
            "additionalProperties": False,
        }

    def _of_pydantic(self, hint: Any, name: str) -> Schema:
        try:
            schema: Schema = hint.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
            json.dumps(schema, allow_nan=False)
        except Exception:
            # Types without a schema make pydantic raise various errors. The model is served all the same.
            return {"title": hint.__name__, "type": "object"}
        for inner, described in schema.pop("$defs", {}).items():
            self.schemas[f"{name}.{inner}"] = described
        return schema


def _defaults(hint: Any) -> Mapping[str, Any] | None:
    """The constructor fields of a dataclass, with their defaults; None for other records."""
    if not dataclasses.is_dataclass(hint):
        return None
    return {field.name: field.default for field in dataclasses.fields(hint) if field.init}


def _is_plain(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)
