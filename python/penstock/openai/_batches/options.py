"""Options of `Batches`, checked."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["Options"]


class Options(NamedTuple):
    """Options of files and batches, as `Batches` describes them."""

    store: Path
    max_file_bytes: int
    max_lines: int
    max_bytes: int
    keep: int
