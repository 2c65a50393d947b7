"""Folders that end with the process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

__all__ = ["own_folder"]


def own_folder(prefix: str) -> Path:
    """A new folder that only this user can read, and that ends with the process."""
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
