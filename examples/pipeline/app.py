"""A picture in, words about it out: four models, two of them in parallel, served as one.

    penstock serve app.py

`compare` is the alternative: a handler that calls models.
"""

from __future__ import annotations

import asyncio

import numpy as np

from penstock import Batching, Context, Pipeline, Step, Tensor, model

SIDE = 64

PICTURE = Tensor("picture", np.uint8, [-1, -1, 3])
SMALL = Tensor("pixels", np.float32, [3, SIDE, SIDE])
WORDS = Tensor("words", str, [1])


# Pictures of different sizes do not fit into one batch. The output has the batch axis of the next models.
@model(inputs=[PICTURE], outputs=[Tensor("pixels", np.float32, [1, 3, SIDE, SIDE])])
def shrink(picture: np.ndarray) -> np.ndarray:
    """picture: UINT8 [height, width, 3], at least 1 by 1."""
    height, width = picture.shape[:2]
    rows, columns = np.arange(SIDE) * height // SIDE, np.arange(SIDE) * width // SIDE
    small = picture[rows[:, None], columns].transpose(2, 0, 1)
    return np.ascontiguousarray(small[None], np.float32) / 255


@model(inputs=[SMALL], outputs=[Tensor("mean", np.float32, [3])], batching=Batching(max_size=32))
def colour(pixels: np.ndarray) -> np.ndarray:
    """pixels: FP32 [batch, 3, 64, 64], red, green, blue, each in 0..1."""
    return pixels.mean(axis=(2, 3))


@model(inputs=[SMALL], outputs=[Tensor("edges", np.float32, [1])], batching=Batching(max_size=32))
def edges(pixels: np.ndarray) -> np.ndarray:
    """Mean difference between neighbours."""
    down, across = np.diff(pixels, axis=2), np.diff(pixels, axis=3)
    return (np.abs(down).mean(axis=(1, 2, 3)) + np.abs(across).mean(axis=(1, 2, 3)))[:, None]


@model(
    inputs=[Tensor("mean", np.float32, [3]), Tensor("edges", np.float32, [1])],
    outputs=[WORDS],
    batching=Batching(max_size=32),
)
def words(mean: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """A line for each row."""
    return np.array([[line(*row)] for row in zip(mean, edges[:, 0], strict=True)], object)


def line(mean: np.ndarray, edges: float) -> str:
    """mean: FP32 [3]."""
    brightness = "bright" if mean.mean() > 0.5 else "dark"
    hue = ("red", "green", "blue")[int(mean.argmax())] if mean.max() - mean.min() > 0.1 else "grey"
    return f"{brightness}, {hue}, {'busy' if edges > 0.1 else 'calm'}"


describe = Pipeline(
    "describe",
    steps=[
        Step(shrink),
        Step(colour),  # these two take the output of `shrink`, in parallel
        Step(edges),
        Step(words),
    ],
    inputs=["picture"],
    outputs=["words", "mean"],
    description="Says in three words what a picture looks like.",
)


@model(
    inputs=[Tensor("left", np.uint8, [-1, -1, 3]), Tensor("right", np.uint8, [-1, -1, 3])],
    outputs=[Tensor("answer", str, [1])],
    calls=["describe"],
)
async def compare(left: np.ndarray, right: np.ndarray, ctx: Context) -> np.ndarray:
    """Two pictures, described by the pipeline in parallel."""
    describe = ctx.models["describe"]
    one, other = await asyncio.gather(describe.aio(left), describe.aio(picture=right))
    one, other = one["words"].item(), other["words"].item()
    return np.array([f"both {one}" if one == other else f"{one}; {other}"], object)
