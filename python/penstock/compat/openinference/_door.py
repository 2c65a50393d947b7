"""The integration: what `penstock serve PATH` and its sisters ask of a folder or file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import Model
from penstock.compat.openinference import _checks
from penstock.compat.openinference._binding import bind
from penstock.compat.openinference._files import definition_in, function_at
from penstock.compat.openinference._function import FunctionSpec
from penstock.compat.openinference._images import ENVIRONMENT, image_of
from penstock.compat.openinference._options import Options
from penstock.errors import StartupError
from penstock.images import ImageSpec
from penstock.integrations import Finding

__all__ = ["check", "describe", "detect", "load", "scaffold"]

NAME = "openinference"

_HANDLER = '''"""A function of Open Inference: how long texts are."""

from __future__ import annotations


def init(context, unit="characters"):
    """Runs once, before the first request."""
    context.unit = unit


def handler(context, request):
    """Runs for each request."""
    texts = request.inputs[0].data
    lengths = [len(text.split()) if context.unit == "words" else len(text) for text in texts]
    return {"outputs": [{"name": "length", "datatype": "INT32", "shape": [len(lengths)], "data": lengths}]}
'''

_DEFINITION = """{
  "kind": "openinference",
  "project": "example",
  "name": "text-length",
  "spec": {
    "source": {"source": "main.py", "handler": "handler", "init_function": "init"},
    "python_version": "PYTHON3_%d",
    "model_name": "text-length",
    "requirements": [],
    "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
    "outputs": [{"name": "length", "datatype": "INT32", "shape": [-1]}]
  },
  "penstock": {"init_parameters": {"unit": "words"}}
}
"""


def detect(path: Path) -> Finding | None:
    """Whether a file, or one in a folder, is a definition with `kind: openinference`."""
    try:
        file = definition_in(path)
    except StartupError:
        return Finding(NAME, "it has several files with kind: openinference", 90)
    if file is None:
        return None
    return Finding(NAME, "it says kind: openinference" if file == path else f"{file.name} says kind: openinference", 95)


def load(path: Path, options: Mapping[str, Any]) -> list[Model[..., Any]]:
    """The model of a function. Its code runs in processes of its own.

    Raises:
        StartupError: it breaks rules, or its code or packages cannot be got.
    """
    function = function_at(path)
    return [bind(function, _options(function, options))]


def describe(path: Path) -> ImageSpec:
    """What an image of the function needs.

    Raises:
        StartupError: it breaks rules.
    """
    file = definition_in(path)
    return image_of(function_at(path), file or path)


def scaffold(folder: Path) -> list[Path]:
    """Writes a first function: its definition, and its code."""
    import sys

    # The newest version that DigitalHub has.
    minor = min(max(sys.version_info.minor, 10), 13)
    files = {"function.json": _DEFINITION % minor, "main.py": _HANDLER}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def check(path: Path) -> list[str]:
    """What is wrong with a function, without running any of it."""
    return _checks.problems_at(path)


def _options(function: FunctionSpec, given: Mapping[str, Any]) -> Options:
    here: dict[str, Any] = {}
    if said := os.environ.get(ENVIRONMENT):
        here["environment"] = said
    return Options.of(function.settings, here, given)
