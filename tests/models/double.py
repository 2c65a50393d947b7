"""A batched model that doubles its input."""

from __future__ import annotations

import numpy as np

from penstock import Batching, Tensor, model


@model(
    inputs=[Tensor("x", np.float32, [4])],
    outputs=[Tensor("y", np.float32, [4])],
    batching=Batching(max_size=8),
)
def double(x):
    """Twice its input."""
    return x * 2
