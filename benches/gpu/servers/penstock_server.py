"""Penstock with ResNet-50: handlers that differ in their memory, streams and instances.

The arguments are the device, the addresses for HTTP and gRPC, and the names of models.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from benches.gpu.captured import Graphs
from benches.gpu.network import CLASSES, DATATYPES, MAX_ROWS, SHAPE, SIZES, network
from penstock import Batching, Model, Tensor, Threads, Warmup, model, serve

DEVICE, HTTP, GRPC, *NAMES = sys.argv[1:] if len(sys.argv) > 4 else ("cpu", "", "")
CAPTURE = threading.Lock()
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


class Graphed:
    """CUDA graphs of the allowed sizes, with pinned memory and a stream for each instance."""

    def __init__(self) -> None:
        with CAPTURE:
            self.graphs = Graphs(network(DEVICE), SIZES)

    def predict(self, x: Array) -> Array:
        """Scores of a batch."""
        rows = len(x)
        np.copyto(self.graphs.images[:rows], x)
        self.graphs.run(rows)
        scores: Array = self.graphs.scores[:rows].copy()
        return scores


class Nothing:
    """The server's own limit: the same tensors, without a device."""

    def predict(self, x: Array) -> Array:
        """Zeros."""
        return np.zeros((len(x), CLASSES), np.float32)


def served(
    name: str, handler: type, *, datatype: str = "UINT8", sizes: Iterable[int] = (), warm: Iterable[int] = ()
) -> Model:
    """One model. Its name ends with the number of instances. Each of them runs the sizes `warm` before it is ready."""
    warm_sizes = list(warm) if DEVICE == "cuda" else [1] * bool(warm)
    return model(
        name=name,
        inputs=[Tensor("x", DATATYPES[datatype], list(SHAPE))],
        outputs=[Tensor("y", np.float32, [CLASSES])],
        batching=Batching(max_size=MAX_ROWS, sizes=sizes),
        instances=Threads(int(name.rpartition("-")[2])),
        warmup=Warmup(True, repeat=2, batch_sizes=warm_sizes) if warm_sizes else None,
    )(handler)


MODELS = (
    served("nothing-1", Nothing),
    served("plain-1", Plain),
    served("plain-2", Plain),
    served("warmed-1", Plain, warm=range(1, MAX_ROWS + 1)),
    served("sized-1", Plain, sizes=SIZES, warm=SIZES),
    served("sized-2", Plain, sizes=SIZES, warm=SIZES),
    served("pinned-2", Staged, sizes=SIZES, warm=SIZES),
    served("graphed-1", Graphed if DEVICE == "cuda" else Plain, sizes=SIZES),
    served("graphed-2", Graphed if DEVICE == "cuda" else Plain, sizes=SIZES),
    served("stream-2", OwnStream),
    served("staged-1", Staged),
    served("staged-2", Staged),
    served("fp16-1", Plain, datatype="FP16"),
    served("fp16-2", OwnStream, datatype="FP16"),
)

if __name__ == "__main__":
    serve(*(one for one in MODELS if one.name in NAMES), http=HTTP, grpc=GRPC)
