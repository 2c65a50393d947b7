"""Detection of folders and files that define a function."""

from __future__ import annotations

from pathlib import Path

from penstock.compat.openinference._definition.files import definition_in
from penstock.errors import StartupError
from penstock.integrations import Finding

__all__ = ["detect"]

NAME = "openinference"


def detect(path: Path) -> Finding | None:
    """Whether a file, or one in a folder, is a definition with `kind: openinference`."""
    try:
        file = definition_in(path)
    except StartupError:
        return Finding(NAME, "it has several files with kind: openinference", 90)
    if file is None:
        return None
    return Finding(NAME, "it says kind: openinference" if file == path else f"{file.name} says kind: openinference", 95)
