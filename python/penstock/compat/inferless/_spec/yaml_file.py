"""Reading of YAML files; requires PyYAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import StartupError

__all__ = ["read_yaml"]


def read_yaml(path: Path) -> dict[str, Any]:
    """Returns the mapping of a file; an empty one for an empty file. All scalars are strings.

    Raises:
        StartupError: the file is not a YAML mapping, or PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise StartupError(f"{path.name} cannot be read without PyYAML: pip install 'penstock[yaml]'") from None
    try:
        # Scalars stay strings, so that a version such as 12.10 is not read as a float.
        found = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506 - of texts only
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StartupError(f"{path.name} is not YAML: {' '.join(str(error).split())}") from None
    if not found:
        return {}
    if not isinstance(found, dict):
        raise StartupError(f"{path.name} must hold names with values, not a {type(found).__name__}")
    return found
