"""Checks a KServe manifest against its custom resource definition, like a cluster with strict validation."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

__all__ = ["find_problems"]

FILES = {"ServingRuntime": "servingruntimes", "InferenceService": "inferenceservices"}


def find_problems(document: dict[str, Any], definitions: Path) -> list[str]:
    """Messages of a cluster about a document."""
    definition = _definition(definitions / f"serving.kserve.io_{FILES[document['kind']]}.yaml")
    assert definition["names"]["kind"] == document["kind"]
    version = document["apiVersion"].removeprefix(f"{definition['group']}/")
    (schema,) = [one["schema"]["openAPIV3Schema"] for one in definition["versions"] if one["name"] == version]
    # The cluster checks the metadata, which all kinds share.
    with_any_metadata = {**schema, "properties": {**schema["properties"], "metadata": {}}}
    errors = Draft202012Validator(_closed(with_any_metadata)).iter_errors(document)
    return sorted(one.message for one in errors)


@functools.cache
def _definition(file: Path) -> Any:
    # Two megabytes, which take the pure Python loader a minute.
    return yaml.load(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]


def _closed(schema: Any) -> Any:
    """Schema that refuses fields which it does not name."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    closed = {key: _closed(one) for key, one in schema.items() if key not in ("default", "description")}
    is_open = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict) and not is_open:
        closed["additionalProperties"] = False
    return closed
