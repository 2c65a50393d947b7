"""Compares a manifest of KServe's with the definition of its kind, as a cluster with strict validation does."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

__all__ = ["problems"]

FILES = {"ServingRuntime": "servingruntimes", "InferenceService": "inferenceservices"}


def problems(document: dict[str, Any], definitions: Path) -> list[str]:
    """What a cluster would say of it."""
    definition = _definition(definitions / f"serving.kserve.io_{FILES[document['kind']]}.yaml")
    assert definition["names"]["kind"] == document["kind"]
    version = document["apiVersion"].removeprefix(f"{definition['group']}/")
    (schema,) = [one["schema"]["openAPIV3Schema"] for one in definition["versions"] if one["name"] == version]
    # Every kind has the same metadata, which is checked by the cluster itself.
    own = {**schema, "properties": {**schema["properties"], "metadata": {}}}
    found = Draft202012Validator(_closed(own)).iter_errors(document)
    return sorted(one.message for one in found)


@functools.cache
def _definition(file: Path) -> Any:
    # Two megabytes: a minute for the reader that is Python.
    return yaml.load(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]


def _closed(schema: Any) -> Any:
    """The schema, with each field that it does not name an error."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    found = {key: _closed(one) for key, one in schema.items() if key not in ("default", "description")}
    is_open = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict) and not is_open:
        found["additionalProperties"] = False
    return found
