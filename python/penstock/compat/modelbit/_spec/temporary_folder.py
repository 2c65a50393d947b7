"""Folders that are deleted when the process ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

__all__ = ["temporary_folder"]


def temporary_folder(prefix: str) -> Path:
    """Creates a folder readable by this user only, deleted when the process ends."""
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
