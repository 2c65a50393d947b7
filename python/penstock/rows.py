"""`RowErrors`: rows of a batch that fail alone."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, SupportsIndex

__all__ = ["RowErrors"]


class RowErrors(Exception):
    """Fails single rows of a batch. Only their callers get an error, the others get their rows.

    A batched handler raises or returns it; one that streams may yield it too. A list that a handler returns
    may instead hold an exception in the place of a row.

    Args:
        errors: The exception of each row that failed, by the row's place in the batch.
        outputs: What the handler would have returned, with all rows of the batch. What it holds in the places of
            failed rows is ignored. None where every row failed.

    Raises:
        TypeError: a place is no integer, or what it has is no exception.
        ValueError: a place is below 0.

    Example:
        >>> def root(x):
        ...     bad = np.flatnonzero(x[:, 0] < 0)
        ...     y = np.sqrt(np.abs(x))
        ...     return RowErrors({row: InvalidInput("x is below 0") for row in bad}, y)
    """

    errors: dict[int, BaseException]
    """The exception of each row that failed."""
    outputs: Any
    """What the handler would have returned; None where every row failed."""

    def __init__(self, errors: Mapping[SupportsIndex, BaseException] | Mapping[int, Any], outputs: Any = None) -> None:
        self.errors = {}
        for place, error in errors.items():
            row = operator.index(place)
            if row < 0:
                raise ValueError(f"RowErrors: row {row} is below 0")
            if not isinstance(error, BaseException):
                raise TypeError(f"RowErrors: row {row} has a {type(error).__name__}, expected an exception")
            self.errors[row] = error
        self.outputs = outputs
        super().__init__(f"{len(self.errors)} rows of the batch failed: {sorted(self.errors)}")
