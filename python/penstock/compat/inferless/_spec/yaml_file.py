"""Reading of YAML files with a mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import StartupError
from penstock.integrations import files

__all__ = ["read_mapping"]


def read_mapping(path: Path) -> dict[str, Any]:
    """Returns the mapping of a YAML file; an empty one for an empty file. All scalars are strings.

    Raises:
        StartupError: the file is not a YAML mapping, or PyYAML is not installed.
    """
    found = files.read_yaml(path, scalars_as_strings=True, extra="inferless")
    if not found:
        return {}
    if not isinstance(found, dict):
        raise StartupError(f"{path.name} must hold names with values, not a {type(found).__name__}")
    return found
