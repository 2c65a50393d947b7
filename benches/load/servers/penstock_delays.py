"""Equal simulated accelerators, each with another batching delay."""

from __future__ import annotations

import os
import time

import numpy as np

import models
from penstock import Batching, Model, Tensor, Threads, model, serve

CALL, ROW = (float(number) / 1000 for number in os.environ["BENCH_COST_MS"].split(","))
DELAYS_MS = [float(number) for number in os.environ["BENCH_DELAYS_MS"].split(",")]


def accelerated(x):
    time.sleep(CALL + ROW * len(x))
    return x


def build(name: str, batching: Batching) -> Model:
    """One rule."""
    return model(
        name=name,
        inputs=[Tensor("x", np.float32, [1])],
        outputs=[Tensor("y", np.float32, [1])],
        instances=Threads(models.WORKERS),
        batching=batching,
    )(accelerated)


if __name__ == "__main__":
    fixed = [
        build(f"fixed-{delay:g}", Batching(max_size=models.MAX_BATCH, max_delay=delay / 1000, hold=False))
        for delay in DELAYS_MS
    ]
    serve(build("default", Batching(max_size=models.MAX_BATCH)), *fixed, http=f"127.0.0.1:{models.PORT}", grpc=None)
