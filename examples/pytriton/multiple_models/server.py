"""Server of two models: one takes batches, the other single arrays of any size."""

import numpy as np
from pytriton.decorators import batch, sample
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton


@batch
def square(x: np.ndarray) -> list[np.ndarray]:
    """Returns outputs in the order of their declaration, so that they need no names."""
    return [x**2]


@sample
def statistics(values: np.ndarray) -> dict[str, np.ndarray]:
    """Receives one array. A model without batching has no batch axis."""
    return {"mean": np.mean(values, keepdims=True), "largest": np.max(values, keepdims=True)}


def main() -> None:
    """Serves until a signal."""
    one = {"dtype": np.float64, "shape": (1,)}
    with Triton() as triton:
        triton.bind(
            model_name="Square",
            infer_func=square,
            inputs=[Tensor(name="x", **one)],
            outputs=[Tensor(name="y", **one)],
            config=ModelConfig(max_batch_size=32, batcher=DynamicBatcher(max_queue_delay_microseconds=500)),
        )
        triton.bind(
            model_name="Statistics",
            infer_func=statistics,
            inputs=[Tensor(name="values", dtype=np.float64, shape=(-1,))],
            outputs=[Tensor(name="mean", **one), Tensor(name="largest", **one)],
            config=ModelConfig(batching=False),
        )
        triton.serve()


if __name__ == "__main__":
    main()
