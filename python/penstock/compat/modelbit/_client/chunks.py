"""Cuts the rows of a batch into requests of a bounded size."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from penstock.compat.modelbit._function.json_codec import dumps
from penstock.compat.modelbit.errors import UserFacingError

__all__ = ["chunks", "rows_of"]


def rows_of(data: Any) -> list[Any] | None:
    """The rows of data that can be cut: of a frame, with its index as ids, or of a list of lists. None for all else."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        records = data.to_dict(orient="records")
        return [[one, record] for one, record in zip(data.index.tolist(), records, strict=True)]
    if isinstance(data, list) and data and isinstance(data[0], list):
        return data
    return None


def chunks(rows: list[Any], size: int, most_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Parts of the rows as JSON, each with the number of its rows.

    Args:
        rows: The rows.
        size: The most rows of a part.
        most_bytes: A part that is longer is halved.

    Raises:
        UserFacingError: a single row is longer.
    """
    for start in range(0, len(rows), size):
        yield from _halved(rows[start : start + size], most_bytes)


def _halved(part: list[Any], most_bytes: int) -> Iterator[tuple[int, bytes]]:
    text = dumps(part)
    if len(text) <= most_bytes:
        yield len(part), text
        return
    if len(part) == 1:
        raise UserFacingError(
            f"A row is larger than batch_bytes ({len(text)} > {most_bytes}): {text[:60].decode(errors='replace')}..."
        )
    middle = (len(part) + 1) // 2
    yield from _halved(part[:middle], most_bytes)
    yield from _halved(part[middle:], most_bytes)
