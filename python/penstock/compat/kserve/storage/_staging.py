"""A folder beside the final one: what comes there is moved when all of it is there, and deleted otherwise."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

__all__ = ["checked", "staged"]


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A new folder within `folder`, whose content moves there at a good end."""
    staging = Path(tempfile.mkdtemp(prefix=".getting-", dir=folder))
    try:
        yield staging
        _move(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def checked(name: str) -> PurePosixPath:
    """A path as a source has it, if it leads nowhere but down.

    Raises:
        RuntimeError: it is absolute, or leads up.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        raise RuntimeError(f"refused {name!r}: it leads out of the folder")
    return path


def _move(source: Path, target: Path) -> None:
    for entry in list(os.scandir(source)):
        place = target / entry.name
        if entry.is_dir(follow_symlinks=False):
            # A link of an earlier download may lead anywhere.
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                place.unlink()
            place.mkdir(exist_ok=True)
            _move(Path(entry.path), place)
        else:
            if place.is_dir() and not place.is_symlink():
                raise RuntimeError(f"there is a folder {place} already, where a file is to be")
            os.replace(entry.path, place)
