"""Penstock's side of the comparison: its native API and its default settings."""

from __future__ import annotations

import numpy as np

import models
from penstock import Batching, Model, Tensor, model, serve


def build(name: str) -> Model:
    """One model with the batch axis; only the batched names join requests."""
    served = models.lookup(name)
    return model(
        name=name,
        inputs=[Tensor("x", bytes if served.text else np.float32, list(served.input_shape))],
        outputs=[Tensor("y", np.float32, list(served.output_shape))],
        batching=Batching(max_size=models.MAX_BATCH if models.batched(name) else 1),
    )(served.call)


if __name__ == "__main__":
    serve(
        *(build(name) for name in models.NAMES),
        http=f"127.0.0.1:{models.PORT}",
        grpc=f"127.0.0.1:{models.GRPC_PORT}",
    )
