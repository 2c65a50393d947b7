"""Penstock with ResNet-50: handlers that differ in their memory, streams and instances.

The arguments are the device and the addresses for HTTP and gRPC.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np
import torch

from benches.gpu.network import CLASSES, DATATYPES, SHAPE, network
from penstock import Batching, Model, Tensor, Threads, model, serve

DEVICE, HTTP, GRPC = sys.argv[1:] if len(sys.argv) == 4 else ("cpu", "", "")
MAX_ROWS = 64
Array = np.ndarray[Any, Any]


class Plain:
    """The handler of the documentation's recipe: pageable memory, the default stream."""

    def __init__(self) -> None:
        self.network = network(DEVICE)

    def predict(self, x: Array) -> Array:
        """Scores of a batch."""
        return self.network(torch.from_numpy(x).to(DEVICE, non_blocking=True)).cpu().numpy()


class OwnStream(Plain):
    """Each instance has a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = torch.cuda.stream(torch.cuda.Stream()) if DEVICE == "cuda" else contextlib.nullcontext()

    def predict(self, x: Array) -> Array:
        """Scores of a batch."""
        with self.stream:
            return super().predict(x)


class Staged(OwnStream):
    """Batches are copied into pinned memory, from which the device reads them."""

    def __init__(self) -> None:
        super().__init__()
        is_pinned = DEVICE == "cuda"
        self.staging = torch.empty((MAX_ROWS, *SHAPE), dtype=torch.uint8, pin_memory=is_pinned)
        self.scores = torch.empty((MAX_ROWS, CLASSES), dtype=torch.float32, pin_memory=is_pinned)

    def predict(self, x: Array) -> Array:
        """Scores of a batch."""
        rows = len(x)
        staged, scores = self.staging[:rows], self.scores[:rows]
        with self.stream:
            np.copyto(staged.numpy(), x)
            scores.copy_(self.network(staged.to(DEVICE, non_blocking=True)), non_blocking=True)
            if DEVICE == "cuda":
                torch.cuda.current_stream().synchronize()
        return scores.numpy().copy()


class Nothing:
    """The server's own limit: the same tensors, without a device."""

    def predict(self, x: Array) -> Array:
        """Zeros."""
        return np.zeros((len(x), CLASSES), np.float32)


def served(name: str, handler: type, instances: int, datatype: str = "UINT8") -> Model:
    """One model."""
    return model(
        name=name,
        inputs=[Tensor("x", DATATYPES[datatype], list(SHAPE))],
        outputs=[Tensor("y", np.float32, [CLASSES])],
        batching=Batching(max_size=MAX_ROWS),
        instances=Threads(instances),
    )(handler)


MODELS = (
    served("nothing", Nothing, 1),
    served("plain-1", Plain, 1),
    served("plain-2", Plain, 2),
    served("stream-2", OwnStream, 2),
    served("staged-1", Staged, 1),
    served("staged-2", Staged, 2),
    served("fp16-1", Plain, 1, "FP16"),
    served("fp16-2", OwnStream, 2, "FP16"),
)

if __name__ == "__main__":
    serve(*MODELS, http=HTTP, grpc=GRPC)
