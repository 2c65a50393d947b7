"""Three small models for ask.py: with batching, streaming and sequences.

penstock serve app.py
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock import Batching, Context, InvalidInput, Sequences, Tensor, model

WIDTH = 256


@model(
    inputs=[Tensor("a", np.float32, [WIDTH]), Tensor("b", np.float32, [WIDTH])],
    outputs=[Tensor("cosine", np.float32, [1])],
    batching=Batching(max_size=64),
)
def similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cosine of the angle between `a` and `b`, row by row."""
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    if not norms.all():
        raise InvalidInput("a vector of zeros has no direction")
    cosine: np.ndarray = (a * b).sum(axis=1) / norms
    return cosine[:, None]


@model
def spell(text: str) -> Iterator[str]:
    """Streams the letters of `text`."""
    yield from text


@model(
    inputs=[Tensor("x", np.float64, [-1])],
    outputs=[Tensor("mean", np.float64, [])],
    sequences=Sequences(idle_timeout=30.0),
)
def running_mean(x: np.ndarray, ctx: Context) -> np.ndarray:
    """Running mean of a sequence."""
    assert ctx.sequence is not None
    state = ctx.sequence.state
    state["sum"] = state.get("sum", 0.0) + float(x.sum())
    state["count"] = state.get("count", 0) + x.size
    return np.array(state["sum"] / max(state["count"], 1))
