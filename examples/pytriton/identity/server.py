"""Server that returns its inputs: numbers, and texts of any length."""

from typing import Any

import numpy as np
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton

TENSORS = [Tensor(name="numbers", dtype=np.float64, shape=(-1,)), Tensor(name="texts", dtype=object, shape=(-1,))]


def identity(requests: Any) -> list[dict[str, np.ndarray]]:
    """Returns one result for each request. A callable without a decorator receives a list of requests."""
    return [{"numbers": request["numbers"], "texts": request["texts"]} for request in requests]


def main() -> None:
    """Serves until a signal."""
    with Triton() as triton:
        triton.bind("Identity", identity, inputs=TENSORS, outputs=TENSORS, config=ModelConfig(max_batch_size=8))
        triton.serve()


if __name__ == "__main__":
    main()
