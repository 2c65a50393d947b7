"""Conversion of numbers and lists to arrays without loss."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

__all__ = ["WrongElement", "exact_array"]

Array = np.ndarray[Any, Any]

_ROUNDED = 2**53
"""From here on, numpy rounds integers that stand among floats in a list."""


class WrongElement(ValueError):
    """An element that is not a value of the array's dtype."""

    element: str
    """The element and its index, as `1.5 at index 0`."""

    def __init__(self, value: object, index: tuple[int, ...], expected: str) -> None:
        shown = reprlib.repr(value.item() if isinstance(value, np.generic) else value)
        where = f" at index {index[0] if len(index) == 1 else [*index]}" if index else ""
        self.element = f"{shown}{where}"
        super().__init__(f"got {self.element}, expected {expected}")


def exact_array(value: Any, dtype: np.dtype[Any] | None) -> Array:
    """Converts a number or a nested list to an array.

    Elements of an integer array may be floats without a fraction, as in a JSON request. numpy would truncate others.

    Raises:
        WrongElement: a fraction, a number out of range or not a number, for an array of integers or booleans.
        TypeError, ValueError, OverflowError: not an array of the dtype.
    """
    if dtype is None or dtype.kind not in "iub":
        return np.asarray(value, dtype)
    found: Array = np.asarray(value)
    if found.dtype == dtype or not found.size:
        return found.astype(dtype, copy=False)
    if found.dtype.kind in "iub" or (found.dtype.kind == "f" and bool((np.abs(found) < _ROUNDED).all())):
        with np.errstate(invalid="ignore"):
            cast = found.astype(dtype)
        if (cast == found).all():
            return cast
    return _by_element(np.asarray(value, dtype=object), dtype)


def _by_element(objects: Array, dtype: np.dtype[Any]) -> Array:
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    array = np.empty(objects.shape, dtype)
    for index, item in np.ndenumerate(objects):
        if (whole := _whole(item)) is None or not low <= whole <= high:
            if not index and isinstance(item, (str, bytes)):
                raise TypeError(f"expected a number, got {type(item).__name__}")
            raise WrongElement(item, index, "a bool, 0 or 1" if high == 1 else f"an integer from {low} to {high}")
        array[index] = whole
    return array


def _whole(item: Any) -> int | None:
    """The integer that equals an element; None if there is none."""
    try:
        whole = int(item)
        return whole if whole == item else None
    except (TypeError, ValueError, OverflowError):
        return None
