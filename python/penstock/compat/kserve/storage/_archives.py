"""Unpacks what was got, if it is an archive."""

from __future__ import annotations

from pathlib import Path

from penstock.compat.kserve.logging import logger
from penstock.integrations import archives
from penstock.integrations.archives import is_archive

__all__ = ["is_archive", "unpack", "unpack_only_file"]


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive into a folder, and deletes it.

    Raises:
        RuntimeError: it is no archive, leads out of the folder, or holds too much.
    """
    logger.info("Unpacking: %s", archive)
    archives.unpack(archive, folder)


def unpack_only_file(folder: Path, files: list[Path]) -> None:
    """Unpacks what was got, if it is one archive and nothing else."""
    if len(files) == 1 and is_archive(files[0].name):
        unpack(files[0], folder)
