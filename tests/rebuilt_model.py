"""A model that its processes rebuild with a factory and its arguments."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from penstock import Model, Processes, Request, Tensor


def build(factor: int, python: str | None = None) -> Model[..., Any]:
    def times(request: Request) -> dict[str, Any]:
        """The product, and the prefix of the interpreter that computes."""
        return {"y": request.tensors["x"] * factor, "python": np.array([sys.prefix.encode()], dtype=object)}

    return Model(
        times,
        name="times",
        inputs=[Tensor("x", np.float32, [-1])],
        outputs=[Tensor("y", np.float32, [-1])],
        instances=Processes(1, python=python, factory=("rebuilt_model:build", {"factor": factor})),
    )
