"""`Tensor`: an input or output of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Tensor"]


@dataclass(frozen=True)
class Tensor:
    """An input or output of a model.

    Example:
        >>> Tensor(name="image", dtype=np.uint8, shape=(-1, -1, 3))
    """

    shape: tuple[int, ...]
    """Shape without the batch axis; -1 means any size."""
    dtype: Any
    """numpy type such as `np.float32`, or its name. `bytes`, `np.bytes_` and `object` are strings or binary data."""
    name: str | None = None
    """Name, by default INPUT_1, INPUT_2 ... or OUTPUT_1, OUTPUT_2 ... in order."""
    optional: bool | None = False
    """A request may leave the input out. For inputs only."""

    def __post_init__(self) -> None:
        if isinstance(self.dtype, np.dtype):
            object.__setattr__(self, "dtype", self.dtype.type)
        elif isinstance(self.dtype, str):
            object.__setattr__(self, "dtype", np.dtype(self.dtype).type)
