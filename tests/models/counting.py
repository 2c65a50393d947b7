"""A model with sequence state: the sum of the numbers sent."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock import Batching, Context, Sequences, Tensor, model


@model(
    inputs=[Tensor("x", np.float32, [1])],
    outputs=[Tensor("total", np.float32, [1])],
    batching=Batching(max_size=8),
    sequences=Sequences(idle_timeout=20.0, max_active=64),
    instances=2,
)
def counting(x: Any, ctx: Context) -> Any:
    totals = np.empty_like(x)
    for row, request in enumerate(ctx.requests):
        assert request.sequence is not None
        state = request.sequence.state
        state["total"] = state.get("total", 0.0) + float(x[row, 0])
        totals[row] = state["total"]
    return totals
