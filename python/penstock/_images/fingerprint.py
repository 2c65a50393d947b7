"""Fingerprint of the files that an image is built of, to detect changes."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import penstock
from penstock._images.context import files_of
from penstock.errors import StartupError

__all__ = ["stamp"]

_MAX_FILES = 20_000
"""Limit of files; reading the state of more would take too long."""


def stamp(path: Path, object_name: str = "") -> str:
    """Fingerprint of a folder, or of a file's folder: names, sizes and times of files, and Penstock's version.

    Args:
        path: The served folder or file.
        object_name: The object of the target, if it has one.

    Returns:
        64 hexadecimal digits; empty if there are too many files, or the state of one cannot be read.
    """
    resolved = path.resolve()
    folder = resolved if resolved.is_dir() else resolved.parent
    total = hashlib.sha256(f"{penstock.__version__}\0{resolved.name}\0{object_name}\n".encode())
    try:
        names = list(itertools.islice(files_of(folder), _MAX_FILES + 1))
        for name in names:
            status = (folder / name).stat()
            total.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    except (OSError, StartupError):
        return ""
    return total.hexdigest() if len(names) <= _MAX_FILES else ""
