"""`Ragged` and `Padded`: rows of different lengths in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock._spec.elements import exact_array

__all__ = ["Padded", "Ragged"]

Array = npt.NDArray[Any]
Lengths = npt.NDArray[np.int64]


class Ragged:
    """Rows of different lengths, concatenated: a handler's value of an input declared with `ragged=True`.

    A handler may also return one for an output that is declared so. Iteration yields the rows, which are views.

    Args:
        values: The rows, concatenated along the first axis.
        lengths: The length of each row.

    Raises:
        ValueError: the lengths do not add up to the first axis of `values`.

    Example:
        >>> [row.tolist() for row in Ragged(np.array([1, 2, 3]), [2, 0, 1])]
        [[1, 2], [], [3]]
    """

    values: Array
    """The concatenated rows: the first axis is the sum of the lengths."""
    lengths: Lengths
    """The length of each row."""

    def __init__(self, values: npt.ArrayLike, lengths: npt.ArrayLike) -> None:
        self.values = np.asarray(values)
        self.lengths = _lengths(lengths)
        total = int(self.lengths.sum())
        if self.values.ndim == 0 or total != len(self.values):
            raise ValueError(f"Ragged: the lengths make {total}, and the values have shape {list(self.values.shape)}")

    @classmethod
    def of(cls, rows: Iterable[npt.ArrayLike], dtype: npt.DTypeLike | None = None) -> Ragged:
        """Concatenates rows that differ only in length. `dtype` applies to rows that are lists, not arrays.

        Raises:
            ValueError: there are no rows, their other axes differ, or an element is not a value of `dtype`.
        """
        dtype = None if dtype is None else np.dtype(dtype)
        arrays = [row if isinstance(row, np.ndarray) else exact_array(row, dtype) for row in rows]
        if any(array.ndim == 0 for array in arrays):
            raise ValueError("Ragged: a row is a number, which has no length")
        return cls(np.concatenate(arrays), [len(array) for array in arrays])

    @cached_property
    def offsets(self) -> Lengths:
        """The start of each row, followed by the end of the last one."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.lengths)))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> Array:
        index = range(len(self))[row]
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[Array]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows, {list(self.values.shape)}, {self.values.dtype})"


class Padded:
    """Rows of different lengths, padded to the longest: a handler's value of an input declared with `pad=`.

    Args:
        values: The rows, along the first axis; their second axis is as long as the longest.
        lengths: The length of each row, without padding.
    """

    values: Array
    """The padded rows."""
    lengths: Lengths
    """The length of each row, without padding."""

    def __init__(self, values: npt.ArrayLike, lengths: npt.ArrayLike) -> None:
        self.values = np.asarray(values)
        self.lengths = _lengths(lengths)

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Mask of the values: False for padding."""
        return np.arange(self.values.shape[1]) < self.lengths[:, None]

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        return f"Padded({list(self.values.shape)}, {self.values.dtype})"


def _lengths(lengths: npt.ArrayLike) -> Lengths:
    given = np.asarray(lengths, dtype=np.int64)
    if given.ndim != 1 or (given < 0).any():
        raise ValueError("Ragged: the lengths must be a list of numbers of 0 or more")
    return given
