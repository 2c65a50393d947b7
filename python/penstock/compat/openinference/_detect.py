"""Detection of folders and files that define a function."""

from __future__ import annotations

from pathlib import Path

from penstock.compat.openinference._definition.files import find_definition
from penstock.errors import StartupError
from penstock.integrations import Finding

__all__ = ["detect"]

NAME = "openinference"


def detect(path: Path) -> Finding | None:
    """Detects a file with `kind: openinference`, or a folder that contains one."""
    try:
        file = find_definition(path)
    except StartupError:
        return Finding(NAME, "it has several files with kind: openinference", 90)
    if file is None:
        return None
    return Finding(NAME, "it has kind: openinference" if file == path else f"{file.name} has kind: openinference", 95)
