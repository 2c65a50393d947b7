"""`pad_batch` and `ConstantPadder`: arrays made larger, to the sizes that are wanted."""

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
    """Repeats the last row up to the next preferred batch size, or the largest one.

    What is computed of the repeated rows is for the function to cut off.
    """
    config = get_model_config(wrapped, instance)
    preferred = getattr(config.batcher, "preferred_batch_size", None) or ()
    inputs = {name: value for name, value in kwargs.items() if name not in NOT_INPUTS}
    rows = len(next(iter(inputs.values())))
    wanted = min(size for size in (*preferred, config.max_batch_size) if size >= rows)
    if wanted > rows:
        last = np.minimum(np.arange(wanted), rows - 1)
        inputs = {name: array[last] for name, array in inputs.items()}
    return wrapped(*args, **{**kwargs, **inputs})


class ConstantPadder:
    """Fills the arrays of several batches up to one shape, for `group_by_values`.

    Args:
        pad_value: What they are filled up with. Texts are filled up with empty ones.
    """

    def __init__(self, pad_value: Any = 0) -> None:
        self.pad_value = pad_value

    def __call__(self, batches_list: Sequence[dict[str, Array]]) -> list[dict[str, Array]]:
        """The same batches, whose arrays of one name differ in their rows alone.

        Raises:
            PyTritonRuntimeError: arrays of one name have different types.
        """
        names = dict.fromkeys(name for one in batches_list for name in one)
        wanted = {name: self._wanted([one[name] for one in batches_list if name in one]) for name in names}
        return [{name: self._padded(array, *wanted[name]) for name, array in one.items()} for one in batches_list]

    @staticmethod
    def _wanted(arrays: list[Array]) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape of a row, and the type."""
        kinds = {array.dtype.kind for array in arrays}
        dtypes = {array.dtype for array in arrays}
        if len(kinds) > 1 or (len(dtypes) > 1 and not kinds <= set("SU")):
            raise PyTritonRuntimeError("All input arrays for given input name must have the same dtype.")
        shape = tuple(int(size) for size in np.max([array.shape[1:] for array in arrays], axis=0))
        return shape, max(dtypes, key=lambda dtype: dtype.itemsize)

    def _padded(self, array: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        filling = b"" if dtype.kind in "OS" else "" if dtype.kind == "U" else self.pad_value
        padded = np.full((len(array), *shape), filling, dtype=dtype)
        padded[tuple(slice(size) for size in array.shape)] = array
        return padded
