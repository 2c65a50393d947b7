"""Example requests, shown at the start, and the example of `penstock init`."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.compat.inferless._spec.schema import FAMILIES, Schema, Tensor

__all__ = ["curl_command", "example_body", "greeting", "scaffold"]

_SAMPLES: dict[str, Any] = {"text": "A sample line", "int": 1, "float": 0.5, "bool": True}


def example_body(schema: Schema) -> dict[str, Any]:
    """Returns a request body with a schema's examples, without optional inputs that have none."""
    tensors = [_example_tensor(one, schema) for one in schema.inputs if one.required or one.example is not None]
    return {"inputs": tensors}


def curl_command(name: str, schema: Schema, url: str = "http://localhost:8000", *, key: bool = False) -> str:
    """Returns a curl command that calls an app with its examples.

    Args:
        name: The model's name.
        schema: The app's schema.
        url: Base URL of the server.
        key: Whether the app has an API key.
    """
    verb = "generate_stream" if schema.streaming else "infer"
    body: dict[str, Any] = example_body(schema)
    if schema.streaming:
        body = {"parameters": {one["name"]: _to_parameter(one["data"]) for one in body["inputs"]}}
    lines = [
        f"curl{' -N' if schema.streaming else ''} {url}/v2/models/{name}/{verb}",
        "-H 'Content-Type: application/json'",
    ]
    if key:
        lines.append('-H "Authorization: Bearer $INFERLESS_API_KEY"')
    lines.append(f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}")
    return " \\\n  ".join(lines)


def _example_tensor(tensor: Tensor, schema: Schema) -> dict[str, Any]:
    example = _SAMPLES[FAMILIES[tensor.datatype]] if tensor.example is None else tensor.example
    data = example if isinstance(example, list) else [example]
    shape = _example_shape(tensor, data)
    if schema.batch_size and len(tensor.shape) == 1:
        shape, data = [1, *shape], [data]
    return {"name": tensor.name, "shape": shape, "datatype": tensor.datatype, "data": data}


def _example_shape(tensor: Tensor, data: list[Any]) -> list[int]:
    """Returns the shape of an example: that of its nesting, or the declared one for a flat list."""
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


def _to_parameter(data: Any) -> Any:
    return data[0] if isinstance(data, list) and len(data) == 1 and not isinstance(data[0], list) else data


def greeting(models: Sequence[Any], url: str) -> list[str]:
    """Returns a curl command for each app.

    Args:
        models: Models of `load`.
        url: Base URL of the server.
    """
    commands = [curl for one in models if (curl := getattr(one.__wrapped__, "curl", None)) is not None]
    return [curl(url).replace(" \\\n  ", " ") for curl in commands]


_FILES = {
    "app.py": '''\
"""Counts a word in a text."""


class InferlessPythonModel:
    """Loaded once; `infer` is called for each request."""

    def initialize(self):
        """Loads what `infer` needs, weights for example."""
        self.case_counts = False

    def infer(self, inputs):
        """Returns the outputs by name."""
        text, word = inputs["text"], inputs.get("word", "the")
        if not self.case_counts:
            text, word = text.lower(), word.lower()
        return {"count": text.split().count(word)}

    def finalize(self):
        """Releases what `initialize` loaded."""
''',
    "input_schema.py": """\
INPUT_SCHEMA = {
    "text": {"datatype": "STRING", "shape": [1], "required": True, "example": ["The cat sees the dog"]},
    "word": {"datatype": "STRING", "shape": [1], "required": False, "example": ["the"]},
}
""",
    "inferless-runtime-config.yaml": """\
build:
  system_packages: []
  python_packages: []
  run: []
""",
}


def scaffold(folder: Path) -> list[Path]:
    """Writes an example app into a folder; existing files stay.

    Returns:
        The files written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in _FILES.items():
        path = folder / name
        if not path.exists():
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written
