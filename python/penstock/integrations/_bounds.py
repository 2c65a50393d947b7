"""Counts what comes from elsewhere: files, and bytes."""

from __future__ import annotations

import os
from typing import IO

__all__ = ["Bounds"]

_MOST_FILES = 100_000
_LEAST = 1 << 30
_RATIO = 100
_PIECE = 1 << 20
_ENTRY_SIZE = 1024


class Bounds:
    """Counts files and bytes.

    Args:
        packed: The bytes of the archive, as far as they are known. It may hold a hundred times as much and a GiB, or
            what the environment's PENSTOCK_STORAGE_MAX_BYTES says, in PENSTOCK_STORAGE_MAX_FILES files, by default
            100,000.
        most: The bytes by default, in the place of those.
        what: What is counted, for messages.
    """

    def __init__(self, packed: int = 0, *, most: int | None = None, what: str = "the archive") -> None:
        said = _number("PENSTOCK_STORAGE_MAX_BYTES")
        self._follows = said is None and most is None
        self._most_bytes = next((one for one in (said, most) if one is not None), _LEAST)
        files = _number("PENSTOCK_STORAGE_MAX_FILES")
        self._most_files = _MOST_FILES if files is None else files
        self._bytes = self._files = 0
        self._what = what
        self.packed(packed)

    def packed(self, size: int) -> None:
        """Takes note of bytes of the archive, which are more known of than before."""
        if self._follows:
            self._most_bytes += _RATIO * size

    def entry(self) -> None:
        """Counts one entry.

        Raises:
            RuntimeError: it is one too many.
        """
        self._files += 1
        if self._files > self._most_files:
            raise RuntimeError(
                f"{self._what} has more than {self._most_files} entries: PENSTOCK_STORAGE_MAX_FILES allows more"
            )

    def directory(self, size: int, entries: int = 0) -> None:
        """Looks at a list of entries before it is read: its bytes, or how many it has.

        Raises:
            RuntimeError: it is too large for as many entries as there may be.
        """
        most = max(_PIECE, self._most_files * _ENTRY_SIZE)
        if size > most or entries > self._most_files:
            raise RuntimeError(
                f"{self._what} has more than {self._most_files} entries, or a list of them of more than {most} bytes: "
                "PENSTOCK_STORAGE_MAX_FILES allows more"
            )

    def content(self, size: int) -> None:
        """Counts bytes of content.

        Raises:
            RuntimeError: they are too many.
        """
        self._bytes += size
        if self._bytes > self._most_bytes:
            raise RuntimeError(
                f"{self._what} holds more than {self._most_bytes} bytes: PENSTOCK_STORAGE_MAX_BYTES allows more"
            )

    def copy(self, source: IO[bytes], target: IO[bytes]) -> None:
        """Copies a file, and counts its bytes.

        Raises:
            RuntimeError: they are too many.
        """
        while piece := source.read(_PIECE):
            self.content(len(piece))
            target.write(piece)


def _number(name: str) -> int | None:
    said = os.environ.get(name)
    if not said:
        return None
    if not said.isdecimal():
        raise RuntimeError(f"{name} is {said!r}, expected a number")
    return int(said)
