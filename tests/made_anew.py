"""A model that its processes make anew, of what they are told."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from penstock import Model, Processes, Request, Tensor


def made(factor: int, python: str | None = None) -> Model[..., Any]:
    def times(request: Request) -> dict[str, Any]:
        """Says in which interpreter it computes, too."""
        return {"y": request.tensors["x"] * factor, "python": np.array([sys.prefix.encode()], dtype=object)}

    return Model(
        times,
        name="times",
        inputs=[Tensor("x", np.float32, [-1])],
        outputs=[Tensor("y", np.float32, [-1])],
        instances=Processes(1, python=python, factory=("made_anew:made", {"factor": factor})),
    )
