"""`pad_batch` and `ConstantPadder`: padding of arrays to larger shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.compat.pytriton.decorators._context import NOT_INPUTS, get_model_config
from penstock.compat.pytriton.decorators._wrapping import decorator
from penstock.compat.pytriton.exceptions import PyTritonRuntimeError

__all__ = ["ConstantPadder", "pad_batch"]

Array = npt.NDArray[Any]


@decorator
def pad_batch(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Repeats the last row up to the next preferred batch size, or the maximum batch size.

    The function has to remove the results of the repeated rows.
    """
    config = get_model_config(wrapped, instance)
    preferred = getattr(config.batcher, "preferred_batch_size", None) or ()
    inputs = {name: value for name, value in kwargs.items() if name not in NOT_INPUTS}
    rows = len(next(iter(inputs.values())))
    target = min(size for size in (*preferred, config.max_batch_size) if size >= rows)
    if target > rows:
        last = np.minimum(np.arange(target), rows - 1)
        inputs = {name: array[last] for name, array in inputs.items()}
    return wrapped(*args, **{**kwargs, **inputs})


class ConstantPadder:
    """Pads the arrays of several batches to one shape, for `group_by_values`.

    Args:
        pad_value: Fill value. String arrays are padded with empty strings.
    """

    def __init__(self, pad_value: Any = 0) -> None:
        self.pad_value = pad_value

    def __call__(self, batches_list: Sequence[dict[str, Array]]) -> list[dict[str, Array]]:
        """Returns the batches, in which arrays of one name differ in the row count only.

        Raises:
            PyTritonRuntimeError: arrays of one name have different types.
        """
        names = dict.fromkeys(name for one in batches_list for name in one)
        target = {name: self._target([one[name] for one in batches_list if name in one]) for name in names}
        return [{name: self._pad(array, *target[name]) for name, array in one.items()} for one in batches_list]

    @staticmethod
    def _target(arrays: list[Array]) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Returns the shape of a row, and the type."""
        kinds = {array.dtype.kind for array in arrays}
        dtypes = {array.dtype for array in arrays}
        if len(kinds) > 1 or (len(dtypes) > 1 and not kinds <= set("SU")):
            raise PyTritonRuntimeError("All input arrays for given input name must have the same dtype.")
        shape = tuple(int(size) for size in np.max([array.shape[1:] for array in arrays], axis=0))
        return shape, max(dtypes, key=lambda dtype: dtype.itemsize)

    def _pad(self, array: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        fill_value = b"" if dtype.kind in "OS" else "" if dtype.kind == "U" else self.pad_value
        padded = np.full((len(array), *shape), fill_value, dtype=dtype)
        padded[tuple(slice(size) for size in array.shape)] = array
        return padded
