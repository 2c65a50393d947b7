"""JSON Schema of a type hint: describes the documents that its codec accepts."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect as mi

from penstock._handler import json_types

__all__ = ["Schema", "choices", "example", "of_hint"]

Schema = dict[str, Any]

_TEXTS = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "decimal": "1",
    "uuid": "00000000-0000-0000-0000-000000000000",
}
_UNLISTED = object()
_EXAMPLES: dict[str | None, Any] = {"boolean": True, "null": None, None: {}}


def of_hint(hint: Any, classes: Mapping[Any, mi.Type]) -> Schema:
    """The schema of a hint that contains these classes; references in it begin with `#/$defs/`."""
    models = _PydanticModels({json_types.name_of(cls) for cls in classes})
    closed = {json_types.name_of(cls) for cls, info in classes.items() if isinstance(info, json_types.CLOSED)}
    try:
        (root,), components = msgspec.json.schema_components([hint], schema_hook=models.reference)
        for schema in components.values():
            _complete(schema, closed)
        definitions = {**components, **models.schemas}
        found: Schema = {**root, "$defs": definitions} if definitions else root
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError):
        # A default without a JSON form. The model is served all the same.
        return {}
    return found


def example(schema: Schema) -> Any:
    """A value that a schema describes, as parsed JSON; not always one that satisfies its bounds and patterns."""
    return _example(schema, schema)


def choices(schema: Schema, steps: Sequence[Any]) -> tuple[list[Any], bool]:
    """The values that a schema lists for the value at a path, and whether it allows no others."""
    found = list(_choices(schema, steps, schema))
    listed = [choice for choice in found if choice is not _UNLISTED]
    return listed, len(listed) == len(found)


def _complete(schema: Schema, closed: set[str]) -> None:
    """Adds what the codec checks beyond msgspec, and removes what is not JSON."""
    if "description" in schema:
        schema["description"] = inspect.cleandoc(schema["description"])
    if schema.get("type") == "object" and schema["title"].split("[")[0] in closed:
        schema["additionalProperties"] = False
    for field in schema.get("properties", {}).values():
        default = field.get("default")
        if isinstance(default, float) and not math.isfinite(default):
            del field["default"]


def _target(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return schema


def _example(schema: Schema, root: Schema, above: tuple[Any, ...] = ()) -> Any:
    """An example; `above` are the references around it, so that a class in itself ends."""
    reference, schema = schema.get("$ref"), _target(schema, root)
    inside = above if reference is None else (*above, reference)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return None if {"type": "null"} in schema["anyOf"] else _example(schema["anyOf"][0], root, inside)
    if schema.get("type") == "object":
        return {name: _example(schema["properties"][name], root, inside) for name in schema.get("required", ())}
    if schema.get("type") == "array":
        items, least = schema.get("items"), schema.get("minItems", 0)
        if isinstance(items, dict) and items.get("$ref") not in inside and schema.get("maxItems", 1) > 0:
            return [_example(items, root, inside)] * max(least, 1)
        return [_example(item, root, inside) for item in schema.get("prefixItems", ())[:least]]
    if schema.get("type") == "string":
        return "" if "contentEncoding" in schema else _TEXTS.get(schema.get("format", ""), "text")
    if schema.get("type") in ("integer", "number"):
        return _number(schema)
    return _EXAMPLES[schema.get("type")]


def _number(schema: Schema) -> float:
    """1, or the number next to it within the bounds."""
    least, most = schema.get("minimum"), schema.get("maximum")
    least = schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else least
    most = schema["exclusiveMaximum"] - 1 if "exclusiveMaximum" in schema else most
    number: float = 1 if most is None else min(1, most)
    number = number if least is None else max(number, least)
    return number if schema["type"] == "integer" else float(number)


def _choices(schema: Schema, steps: Sequence[Any], root: Schema) -> Iterator[Any]:
    schema = _target(schema, root)
    for member in schema.get("anyOf", ()):
        yield from _choices(member, steps, root)
    if not steps:
        is_null = schema.get("type") == "null"
        yield from schema.get("enum") or ([] if "anyOf" in schema else [None if is_null else _UNLISTED])
        return
    inside: Any = schema.get("properties", {}).get(steps[0], schema.get("additionalProperties"))
    if isinstance(steps[0], int):
        fixed = schema.get("prefixItems", ())
        inside = fixed[steps[0]] if steps[0] < len(fixed) else schema.get("items")
    if isinstance(inside, dict):
        yield from _choices(inside, steps[1:], root)


class _PydanticModels:
    """Schemas of the pydantic models that a hint refers to, one for each."""

    def __init__(self, taken: set[str]) -> None:
        self.schemas: dict[str, Schema] = {}
        self._taken = taken
        self._names: dict[Any, str] = {}

    def reference(self, model: Any) -> Schema:
        if model is object:
            return {}
        if model not in self._names:
            name = model.__name__
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            self._names[model] = name
            self._add(model, name)
        return {"$ref": f"#/$defs/{self._names[model]}"}

    def _add(self, model: Any, name: str) -> None:
        try:
            schema: Schema = model.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
            json.dumps(schema, allow_nan=False)
        except Exception:
            # Types without a schema make pydantic raise various errors. The model is served all the same.
            schema = {"title": model.__name__, "type": "object"}
        inner = schema.pop("$defs", {})
        self.schemas[name] = schema
        self.schemas.update({f"{name}.{other}": described for other, described in inner.items()})
