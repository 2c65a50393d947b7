"""A command that calls an app with its own examples."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

from penstock.compat.inferless._spec.schema import FAMILIES, Schema, Tensor

__all__ = ["body_of", "curl_of"]

_SAMPLES: dict[str, Any] = {"text": "A sample line", "int": 1, "float": 0.5, "bool": True}


def body_of(schema: Schema) -> dict[str, Any]:
    """The body of a request with the examples of a schema. Optional inputs without an example are left out."""
    tensors = [_tensor(one, schema) for one in schema.inputs if one.required or one.example is not None]
    return {"inputs": tensors}


def curl_of(name: str, schema: Schema, url: str = "http://localhost:8000", *, key: bool = False) -> str:
    """A curl command that calls an app with its examples.

    Args:
        name: The model's name.
        schema: What it takes.
        url: Where the server is.
        key: Whether a key is needed.
    """
    verb = "generate_stream" if schema.streaming else "infer"
    told: dict[str, Any] = body_of(schema)
    if schema.streaming:
        told = {"parameters": {one["name"]: _one(one["data"]) for one in told["inputs"]}}
    lines = [
        f"curl{' -N' if schema.streaming else ''} {url}/v2/models/{name}/{verb}",
        "-H 'Content-Type: application/json'",
    ]
    if key:
        lines.append('-H "Authorization: Bearer $INFERLESS_API_KEY"')
    lines.append(f"-d {shlex.quote(json.dumps(told, ensure_ascii=False))}")
    return " \\\n  ".join(lines)


def _tensor(tensor: Tensor, schema: Schema) -> dict[str, Any]:
    example = _SAMPLES[FAMILIES[tensor.datatype]] if tensor.example is None else tensor.example
    data = example if isinstance(example, list) else [example]
    shape = _shape(tensor, data)
    if schema.batch_size and len(tensor.shape) == 1:
        shape, data = [1, *shape], [data]
    return {"name": tensor.name, "shape": shape, "datatype": tensor.datatype, "data": data}


def _shape(tensor: Tensor, data: list[Any]) -> list[int]:
    """The shape of an example: as it is nested, or as it is declared."""
    shape: list[int] = []
    inner: Any = data
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    fixed = [one for one in tensor.shape if one != -1]
    if len(shape) == 1 and len(tensor.shape) > 1:
        rest = len(data) // max(1, math.prod(fixed))
        return [rest if one == -1 else one for one in tensor.shape]
    return shape


def _one(data: Any) -> Any:
    return data[0] if isinstance(data, list) and len(data) == 1 and not isinstance(data[0], list) else data
