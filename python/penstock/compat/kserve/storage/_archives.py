"""Unpacking of downloaded archives."""

from __future__ import annotations

from pathlib import Path

from penstock.compat.kserve.logging import logger
from penstock.integrations import archives
from penstock.integrations.archives import is_archive

__all__ = ["is_archive", "unpack", "unpack_only_file"]


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive into a folder, and deletes it.

    Raises:
        RuntimeError: the file is not an archive, leads out of the folder, or exceeds a limit.
    """
    logger.info("Unpacking: %s", archive)
    archives.unpack(archive, folder)


def unpack_only_file(folder: Path, files: list[Path]) -> None:
    """Unpacks the download, if it is a single archive."""
    if len(files) == 1 and is_archive(files[0].name):
        unpack(files[0], folder)
