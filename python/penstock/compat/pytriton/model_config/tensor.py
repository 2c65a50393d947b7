"""`Tensor`: one input or output of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Tensor"]


@dataclass(frozen=True)
class Tensor:
    """One input or output of a model.

    Example:
        >>> Tensor(name="image", dtype=np.uint8, shape=(-1, -1, 3))
    """

    shape: tuple[int, ...]
    """The sizes of its axes without the batch axis; -1 is any size."""
    dtype: Any
    """A numpy type such as `np.float32`, its name, or `bytes`, `np.bytes_` or `object` for texts and blobs."""
    name: str | None = None
    """Its name; by default INPUT_1 and so on, OUTPUT_1 and so on, by its place."""
    optional: bool | None = False
    """Whether a request may leave it out. Inputs only."""

    def __post_init__(self) -> None:
        if isinstance(self.dtype, np.dtype):
            object.__setattr__(self, "dtype", self.dtype.type)
        elif isinstance(self.dtype, str):
            object.__setattr__(self, "dtype", np.dtype(self.dtype).type)
