"""Splitting of a batch into requests of bounded size."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from penstock.compat.modelbit._json_codec import dumps
from penstock.compat.modelbit.errors import UserFacingError

__all__ = ["chunks", "to_rows"]


def to_rows(data: Any) -> list[Any] | None:
    """Returns the rows of a DataFrame, with its index as ids, or of a list of lists; None for other data."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        records = data.to_dict(orient="records")
        return [[one, record] for one, record in zip(data.index.tolist(), records, strict=True)]
    if isinstance(data, list) and data and isinstance(data[0], list):
        return data
    return None


def chunks(rows: list[Any], size: int, most_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yields chunks of the rows: the number of rows and their JSON.

    Args:
        rows: The rows.
        size: The most rows of a chunk.
        most_bytes: The most bytes of a chunk; a longer one is halved.

    Raises:
        UserFacingError: a single row is longer.
    """
    for start in range(0, len(rows), size):
        yield from _halve(rows[start : start + size], most_bytes)


def _halve(chunk: list[Any], most_bytes: int) -> Iterator[tuple[int, bytes]]:
    text = dumps(chunk)
    if len(text) <= most_bytes:
        yield len(chunk), text
        return
    if len(chunk) == 1:
        raise UserFacingError(
            f"A row is larger than batch_bytes ({len(text)} > {most_bytes}): {text[:60].decode(errors='replace')}..."
        )
    middle = (len(chunk) + 1) // 2
    yield from _halve(chunk[:middle], most_bytes)
    yield from _halve(chunk[middle:], most_bytes)
