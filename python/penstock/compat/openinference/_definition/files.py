"""Files with definitions: discovery and parsing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.compat.openinference._definition.function_spec import FunctionSpec, parse_definition
from penstock.compat.openinference._definition.nuclio import is_nuclio, translate_definition
from penstock.errors import StartupError
from penstock.integrations.files import read_yaml

__all__ = ["find_definition", "parse_file", "read_function"]

_SUFFIXES = (".yaml", ".yml", ".json")
# Regular expressions, because detection must work without PyYAML.
_KIND = re.compile(r"""^\s*["']?kind["']?\s*:\s*["']?openinference["']?\s*(?:[,#}].*)?$""", re.MULTILINE)
_INLINE = re.compile(r"""["']kind["']\s*:\s*["']openinference["']""")
_MAX_BYTES = 16 << 20


def find_definition(path: Path) -> Path | None:
    """Returns the file with a definition: the path itself, or a file of the folder.

    Raises:
        StartupError: a folder has several, and none of them is named function.yaml or function.json.
    """
    if path.is_file():
        return path if path.suffix.lower() in _SUFFIXES and _has_definition(path) else None
    found = [one for one in sorted(path.iterdir()) if one.suffix.lower() in _SUFFIXES and _has_definition(one)]
    named = [one for one in found if one.stem == "function"]
    if len(named or found) > 1:
        names = ", ".join(one.name for one in found)
        raise StartupError(f"{path} has several functions of Open Inference ({names}): name one of the files")
    return next(iter(named or found), None)


def read_function(path: Path) -> FunctionSpec:
    """Parses the function of a file or folder.

    Raises:
        StartupError: there is no definition, or it is invalid.
    """
    file = find_definition(path)
    if file is None:
        raise StartupError(f"{path} has no function of Open Inference: a YAML or JSON file with `kind: openinference`")
    document = parse_file(file)
    if is_nuclio(document):
        document = translate_definition(document, file.parent)
    return parse_definition(document, file.parent, file.name)


def parse_file(file: Path) -> Mapping[str, Any]:
    """Parses a YAML or JSON file.

    Raises:
        StartupError: the file cannot be read, or it is not an object.
    """
    found = _parse_json(file) if file.suffix.lower() == ".json" else read_yaml(file, extra="openinference")
    if not isinstance(found, Mapping):
        raise StartupError(f"{file.name} is not an object with kind and spec")
    return found


def _parse_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StartupError(f"{file.name} cannot be read: {error}") from None


def _has_definition(file: Path) -> bool:
    try:
        if not file.is_file() or file.stat().st_size > _MAX_BYTES:
            return False
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return bool(_KIND.search(text) or _INLINE.search(text))
