"""Whether the files that an image was built of have changed since."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import penstock
from penstock._images.context import files_of
from penstock.errors import StartupError

__all__ = ["stamp"]

_MOST = 20_000
"""With more files than that, looking would take longer than it is worth."""


def stamp(path: Path, named: str = "") -> str:
    """What the files of a folder, or beside a file, are now: their names, sizes and times, and the Penstock that runs.

    Args:
        path: What is served.
        named: The object of it, where one was named.

    Returns:
        Sixty-four hexadecimal digits; empty where there are too many files, or one of them cannot be looked at.
    """
    whole = path.resolve()
    folder = whole if whole.is_dir() else whole.parent
    total = hashlib.sha256(f"{penstock.__version__}\0{whole.name}\0{named}\n".encode())
    try:
        names = list(itertools.islice(files_of(folder), _MOST + 1))
        for name in names:
            about = (folder / name).stat()
            total.update(f"{name}\0{about.st_size}\0{about.st_mtime_ns}\n".encode())
    except (OSError, StartupError):
        return ""
    return total.hexdigest() if len(names) <= _MOST else ""
