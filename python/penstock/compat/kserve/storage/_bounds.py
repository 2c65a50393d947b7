"""How much an archive may hold: what is beyond is a mistake, or made to fill the disk."""

from __future__ import annotations

import os
from typing import IO

__all__ = ["Bounds"]

_MOST_FILES = 100_000
_LEAST = 1 << 30
_RATIO = 100
_PIECE = 1 << 20


class Bounds:
    """Counts files and bytes.

    Args:
        packed: The bytes of the archive. It may hold a hundred times as much and a GiB, or what the environment's
            PENSTOCK_STORAGE_MAX_BYTES says, in PENSTOCK_STORAGE_MAX_FILES files, by default 100,000.
    """

    def __init__(self, packed: int) -> None:
        self._bytes = _number("PENSTOCK_STORAGE_MAX_BYTES", _LEAST + _RATIO * packed)
        self._files = _number("PENSTOCK_STORAGE_MAX_FILES", _MOST_FILES)
        self._most_bytes, self._most_files = self._bytes, self._files

    def entry(self) -> None:
        """Counts one entry.

        Raises:
            RuntimeError: it is one too many.
        """
        self._files -= 1
        if self._files < 0:
            raise RuntimeError(
                f"the archive has more than {self._most_files} entries: PENSTOCK_STORAGE_MAX_FILES allows more"
            )

    def copy(self, source: IO[bytes], target: IO[bytes]) -> None:
        """Copies a file, and counts its bytes.

        Raises:
            RuntimeError: they are too many.
        """
        while piece := source.read(_PIECE):
            self._bytes -= len(piece)
            if self._bytes < 0:
                raise RuntimeError(
                    f"the archive holds more than {self._most_bytes} bytes: PENSTOCK_STORAGE_MAX_BYTES allows more"
                )
            target.write(piece)


def _number(name: str, default: int) -> int:
    said = os.environ.get(name)
    if not said:
        return default
    if not said.isdecimal():
        raise RuntimeError(f"{name} is {said!r}, expected a number")
    return int(said)
