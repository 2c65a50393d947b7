"""Server that scales and shifts samples. Both inputs are optional, and have one value for a batch."""

import numpy as np
from pytriton.decorators import batch, fill_optionals, first_value, group_by_values
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton


@fill_optionals(scale=np.array([1], np.float32), shift=np.array([0], np.float32))
@batch
@group_by_values("scale", "shift")
@first_value("scale", "shift")
def transform(sample: np.ndarray, scale: np.float32, shift: np.float32) -> dict[str, np.ndarray]:
    """Scales and shifts. The rows of one call have equal steps, so each step is one number."""
    return {"result": sample * scale + shift}


def main() -> None:
    """Serves until a signal."""
    one = {"dtype": np.float32, "shape": (1,)}
    with Triton() as triton:
        triton.bind(
            model_name="Transform",
            infer_func=transform,
            inputs=[
                Tensor(name="sample", dtype=np.float32, shape=(3,)),
                Tensor(name="scale", optional=True, **one),
                Tensor(name="shift", optional=True, **one),
            ],
            outputs=[Tensor(name="result", dtype=np.float32, shape=(3,))],
            config=ModelConfig(max_batch_size=16),
        )
        triton.serve()


if __name__ == "__main__":
    main()
