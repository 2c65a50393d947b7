"""`Bounds`: limits of files and bytes in downloads and archives."""

from __future__ import annotations

import os
from typing import IO

from penstock.integrations._progress import received

__all__ = ["Bounds"]

_MOST_FILES = 100_000
_LEAST = 1 << 30
_RATIO = 100
_CHUNK = 1 << 20
_ENTRY_SIZE = 1024


class Bounds:
    """Counter of files and bytes with limits.

    Args:
        packed: Known bytes of the archive. It may contain a hundred times as many and a GiB, or
            PENSTOCK_STORAGE_MAX_BYTES of the environment, in at most PENSTOCK_STORAGE_MAX_FILES files, by default
            100,000.
        most: Default limit of bytes, in place of that ratio: of a download, whose progress is shown.
        what: Name of the archive for messages.
    """

    def __init__(self, packed: int = 0, *, most: int | None = None, what: str = "the archive") -> None:
        max_bytes = _number("PENSTOCK_STORAGE_MAX_BYTES")
        self._follows = max_bytes is None and most is None
        self._most_bytes = next((one for one in (max_bytes, most) if one is not None), _LEAST)
        files = _number("PENSTOCK_STORAGE_MAX_FILES")
        self._most_files = _MOST_FILES if files is None else files
        self._bytes = self._files = 0
        self._what = what
        self._is_download = most is not None
        self.packed(packed)

    def packed(self, size: int) -> None:
        """Adds bytes to the known size of the archive."""
        if self._follows:
            self._most_bytes += _RATIO * size

    def entry(self) -> None:
        """Counts one entry.

        Raises:
            RuntimeError: too many entries.
        """
        self._files += 1
        if self._files > self._most_files:
            raise RuntimeError(
                f"{self._what} has more than {self._most_files} entries: PENSTOCK_STORAGE_MAX_FILES allows more"
            )

    def directory(self, size: int, entries: int = 0) -> None:
        """Checks the size in bytes of a list of entries, or their number, before it is read.

        Raises:
            RuntimeError: too many entries, or too large a list.
        """
        most = max(_CHUNK, self._most_files * _ENTRY_SIZE)
        if size > most or entries > self._most_files:
            raise RuntimeError(
                f"{self._what} has more than {self._most_files} entries, or a list of them of more than {most} bytes: "
                "PENSTOCK_STORAGE_MAX_FILES allows more"
            )

    def content(self, size: int) -> None:
        """Counts bytes of content.

        Raises:
            RuntimeError: too many bytes.
        """
        if self._is_download:
            received(size)
        self._bytes += size
        if self._bytes > self._most_bytes:
            raise RuntimeError(
                f"{self._what} holds more than {self._most_bytes} bytes: PENSTOCK_STORAGE_MAX_BYTES allows more"
            )

    def copy(self, source: IO[bytes], target: IO[bytes]) -> None:
        """Copies a file, and counts its bytes.

        Raises:
            RuntimeError: too many bytes.
        """
        while chunk := source.read(_CHUNK):
            self.content(len(chunk))
            target.write(chunk)


def _number(name: str) -> int | None:
    text = os.environ.get(name)
    if not text:
        return None
    if not text.isdecimal():
        raise RuntimeError(f"{name} is {text!r}, expected a number")
    return int(text)
