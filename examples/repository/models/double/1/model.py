"""Twice its input."""

import numpy as np

from penstock import Batching, Tensor, model

from .factor import FACTOR


@model(
    inputs=[Tensor("x", np.float32, [4])],
    outputs=[Tensor("y", np.float32, [4])],
    batching=Batching(max_size=32),
)
def double(x: np.ndarray) -> np.ndarray:
    """Version 1. Relative imports load the modules of this version."""
    return x * FACTOR
