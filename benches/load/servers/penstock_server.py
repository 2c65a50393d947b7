"""Penstock in the comparison: native API and default settings, on threads, on I/O threads or in processes."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

import models
from penstock import Batching, Model, Processes, Tensor, Threads, model, serve

if "processes" in sys.argv:
    INSTANCES: Threads | Processes = Processes(models.WORKERS)
else:
    INSTANCES = Threads(models.WORKERS, inline="inline" in sys.argv)


@dataclass
class Record:
    a: float
    b: float
    c: float
    d: float


@dataclass
class Total:
    total: float


@model(instances=INSTANCES, max_queue=models.MAX_QUEUE)
def records(rows: list[Record]) -> list[Total]:
    return [Total(row.a + row.b + row.c + row.d) for row in rows]


def build(name: str, alias: str = "") -> Model:
    """One model with the batch axis; only the batched names join requests."""
    served = models.lookup(name)
    return model(
        name=alias or name,
        inputs=[Tensor("x", bytes if served.text else np.float32, list(served.input_shape))],
        outputs=[Tensor("y", np.float32, list(served.output_shape))],
        instances=INSTANCES,
        max_queue=models.MAX_QUEUE,
        batching=Batching(max_size=models.MAX_BATCH if models.batched(name) else 1),
    )(served.call)


# At the top level, so that its processes can import them.
MODELS = {name: records if name == "records" else build(name) for name in models.NAMES}
COPIES = [build(models.NAMES[0], f"copy-{number}") for number in range(models.COPIES)]

if __name__ == "__main__":
    serve(
        *MODELS.values(),
        *COPIES,
        http=f"127.0.0.1:{models.PORT}",
        grpc=f"127.0.0.1:{models.GRPC_PORT}",
    )
