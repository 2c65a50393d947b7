"""Reads YAML, for which PyYAML has to be installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import StartupError

__all__ = ["read_yaml"]


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a file; an empty one if the file is empty.

    Raises:
        StartupError: it is none, or PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise StartupError(f"{path.name} cannot be read without PyYAML: pip install 'penstock[yaml]'") from None
    try:
        # Versions and the like stay as they are written: every value is a text, and is read as what it is for.
        found = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506 - of texts only
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StartupError(f"{path.name} is no YAML: {' '.join(str(error).split())}") from None
    if not found:
        return {}
    if not isinstance(found, dict):
        raise StartupError(f"{path.name} must hold names with values, not a {type(found).__name__}")
    return found
