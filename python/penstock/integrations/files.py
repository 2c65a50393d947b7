"""Files of an integration: YAML files and temporary folders."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

from penstock.errors import StartupError

__all__ = ["read_yaml", "temporary_folder"]


def read_yaml(path: Path, *, scalars_as_strings: bool = False, extra: str = "yaml") -> Any:
    """Reads a YAML file; requires PyYAML.

    Args:
        path: The file.
        scalars_as_strings: Whether scalars stay strings, so that a version such as 12.10 is not read as a float.
        extra: Extra of Penstock that brings PyYAML, for the message.

    Raises:
        StartupError: the file cannot be read or is not YAML, or PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise StartupError(f"{path.name} cannot be read without PyYAML: pip install 'penstock[{extra}]'") from None
    loader = yaml.BaseLoader if scalars_as_strings else yaml.SafeLoader
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - both create plain data only
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"{path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise StartupError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


def temporary_folder(prefix: str) -> Path:
    """Creates a folder readable by this user only, deleted when the process ends."""
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
