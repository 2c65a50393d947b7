"""A low-pass filter over signals in chunks of any length: each signal is a sequence with separate state.

y[t] = y[t-1] + share * (x[t] - y[t-1])
"""

from __future__ import annotations

import numpy as np

from penstock import Context, Sequences, Tensor, model

SHARE = 0.2


@model(
    inputs=[Tensor("signal", np.float32, [-1])],
    outputs=[Tensor("smooth", np.float32, [-1])],
    sequences=Sequences(idle_timeout=30.0, max_active=1000),
)
def smooth(signal: np.ndarray, ctx: Context) -> np.ndarray:
    """Continues from the level of the previous chunk."""
    assert ctx.sequence is not None
    state = ctx.sequence.state
    level = state.get("level", float(signal[0]) if len(signal) else 0.0)
    answer = np.empty_like(signal)
    for index, value in enumerate(signal.tolist()):
        level += SHARE * (value - level)
        answer[index] = level
    if len(signal):
        state["level"] = level
    return answer
