"""Server that adds and subtracts columns of numbers, with dynamic batching."""

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton


@batch
def add_and_subtract(left: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    """Adds and subtracts. Each row belongs to one client."""
    return {"sum": left + right, "difference": left - right}


def main() -> None:
    """Serves until a signal."""
    column = {"dtype": np.float32, "shape": (1,)}
    with Triton() as triton:
        triton.bind(
            model_name="AddSub",
            infer_func=add_and_subtract,
            inputs=[Tensor(name="left", **column), Tensor(name="right", **column)],
            outputs=[Tensor(name="sum", **column), Tensor(name="difference", **column)],
            config=ModelConfig(max_batch_size=128),
            strict=True,
        )
        triton.serve()


if __name__ == "__main__":
    main()
