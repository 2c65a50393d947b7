"""An identity model."""

from __future__ import annotations

import numpy as np

from penstock import Tensor, model


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x):
    """Its input."""
    return x
