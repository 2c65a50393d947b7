"""Definitions in files: which file of a folder has one, and what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.compat.openinference._definition.function_spec import FunctionSpec, read
from penstock.compat.openinference._definition.nuclio import definition_of, is_nuclio
from penstock.errors import StartupError

__all__ = ["definition_in", "function_at", "parsed"]

_ENDINGS = (".yaml", ".yml", ".json")
# Read without a parser of YAML: to say what a folder is, none is needed.
_KIND = re.compile(r"""^\s*["']?kind["']?\s*:\s*["']?openinference["']?\s*(?:[,#}].*)?$""", re.MULTILINE)
_INLINE = re.compile(r"""["']kind["']\s*:\s*["']openinference["']""")
_LARGEST = 16 << 20


def definition_in(path: Path) -> Path | None:
    """The file with a definition: the path itself, or one in the folder.

    Raises:
        StartupError: a folder has several, and none is called function.yaml or the like.
    """
    if path.is_file():
        return path if path.suffix.lower() in _ENDINGS and _says_so(path) else None
    found = [one for one in sorted(path.iterdir()) if one.suffix.lower() in _ENDINGS and _says_so(one)]
    named = [one for one in found if one.stem == "function"]
    if len(named or found) > 1:
        names = ", ".join(one.name for one in found)
        raise StartupError(f"{path} has several functions of Open Inference ({names}): name one of the files")
    return next(iter(named or found), None)


def function_at(path: Path) -> FunctionSpec:
    """The function of a file or folder.

    Raises:
        StartupError: there is none, or it breaks rules.
    """
    file = definition_in(path)
    if file is None:
        raise StartupError(f"{path} has no function of Open Inference: a YAML or JSON file with `kind: openinference`")
    entity = parsed(file)
    if is_nuclio(entity):
        entity = definition_of(entity, file.parent)
    return read(entity, file.parent, file.name)


def parsed(file: Path) -> Mapping[str, Any]:
    """What a YAML or JSON file says.

    Raises:
        StartupError: it cannot be read, or is no object.
    """
    try:
        text = file.read_text(encoding="utf-8")
        found = json.loads(text) if file.suffix.lower() == ".json" else _yaml(text, file)
    except (OSError, ValueError) as error:
        raise StartupError(f"{file.name} cannot be read: {error}") from None
    if not isinstance(found, Mapping):
        raise StartupError(f"{file.name} is no object with kind and spec")
    return found


def _yaml(text: str, file: Path) -> Any:
    try:
        import yaml
    except ImportError:
        raise StartupError(
            f"{file.name} is YAML, which needs PyYAML: pip install 'penstock[yaml]', or write JSON"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise StartupError(f"{file.name} is no YAML: {error}") from None


def _says_so(file: Path) -> bool:
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return False
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return bool(_KIND.search(text) or _INLINE.search(text))
