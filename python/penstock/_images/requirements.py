"""Reads a file of requirements as pip does, down to plain lines."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.errors import StartupError

__all__ = ["read_requirements"]

_DEEPEST = 10


def read_requirements(file: Path, depth: int = 0) -> tuple[str, ...]:
    """The requirements of a file, one text each; files that it names with `-r` are read in its place.

    Raises:
        StartupError: it cannot be read, or files name each other in a circle.
    """
    if depth > _DEEPEST:
        raise StartupError(f"{file}: files of requirements name each other in a circle")
    try:
        # Windows editors begin files with a mark.
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise StartupError(f"the requirements {file} cannot be read: {why}") from None
    found: list[str] = []
    for whole in re.sub(r"\s*\\\r?\n\s*", " ", text).splitlines():
        # A `#` within an address is part of it.
        line = re.sub(r"(^|\s)#.*$", "", whole).strip()
        named = re.fullmatch(r"(?:-r|--requirement)[ =]*(\S+)", line)
        if named:
            found += read_requirements(file.parent / named[1], depth + 1)
        elif line:
            found.append(line)
    return tuple(found)
