"""Requirements files, read as pip does.

The 11 lines that split a file are by hand: packaging parses single requirements, without comments, options and `-r`.
"""

from __future__ import annotations

import re
from pathlib import Path

from penstock.errors import StartupError

__all__ = ["read_requirements"]

_MAX_DEPTH = 10


def read_requirements(file: Path, depth: int = 0) -> tuple[str, ...]:
    """The requirements of a file, one text each. Files that it includes with `-r` are read too.

    Raises:
        StartupError: a file cannot be read, or files include each other in a circle.
    """
    if depth > _MAX_DEPTH:
        raise StartupError(f"{file}: files of requirements name each other in a circle")
    try:
        # Windows editors begin files with a byte order mark.
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise StartupError(f"the requirements {file} cannot be read: {why}") from None
    requirements: list[str] = []
    for text_line in re.sub(r"\s*\\\r?\n\s*", " ", text).splitlines():
        # A `#` within a URL is part of it.
        line = re.sub(r"(^|\s)#.*$", "", text_line).strip()
        included = re.fullmatch(r"(?:-r|--requirement)[ =]*(\S+)", line)
        if included:
            requirements += read_requirements(file.parent / included[1], depth + 1)
        elif line:
            requirements.append(line)
    return tuple(requirements)
