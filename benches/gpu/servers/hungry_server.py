"""Penstock with a handler that allocates device memory per row, so that large batches exceed it.

The arguments are the device, the address, and the most rows that fit.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

from penstock import Batching, Tensor, model, serve

Array = np.ndarray[Any, Any]


class Hungry:
    """Sums of rows; each row takes an equal part of the memory that was free at the start."""

    def __init__(self) -> None:
        if DEVICE == "cuda":
            self.row_bytes = int(torch.cuda.mem_get_info()[0] / (FITTING + 0.5))

    def predict(self, x: Array) -> Array:
        """Sums of the rows."""
        try:
            self.fill(len(x))
        except torch.cuda.OutOfMemoryError as error:
            print(f"out of memory: {len(x)} rows: {' '.join(str(error).split())[:160]}", flush=True)
            raise
        finally:
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
        return x.sum(axis=1)

    def fill(self, rows: int) -> None:
        """Allocates the memory of a batch."""
        if DEVICE == "cuda":
            block = torch.empty(rows * self.row_bytes, dtype=torch.uint8, device=DEVICE)
            block[:: 1 << 20] = 1
            torch.cuda.synchronize()
        elif rows > FITTING:
            raise torch.cuda.OutOfMemoryError(f"{rows} rows")


if __name__ == "__main__":
    DEVICE, HTTP, FITTING = sys.argv[1], sys.argv[2], int(sys.argv[3])
    inputs, outputs = [Tensor("x", np.float32, [16])], [Tensor("y", np.float32, [])]
    models = [
        model(name=name, inputs=inputs, outputs=outputs, batching=Batching(max_size=64, retry_on_oom=retries))(Hungry)
        for name, retries in (("retries", True), ("fails", False))
    ]
    serve(*models, http=HTTP, grpc="off", batching_debug="read")
