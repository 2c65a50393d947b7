"""Server of Vertex AI's routes, which the variables AIP_HTTP_PORT, AIP_HEALTH_ROUTE and AIP_PREDICT_ROUTE define."""

import os

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import Tensor
from pytriton.triton import Triton, TritonConfig


@batch
def double(x: np.ndarray) -> dict[str, np.ndarray]:
    """Doubles the input."""
    return {"y": 2 * x}


def main() -> None:
    """Serves until a signal. The server is healthy after the model is bound."""
    one = {"dtype": np.float32, "shape": (1,)}
    config = TritonConfig(
        allow_vertex_ai=True,
        vertex_ai_port=int(os.environ.get("AIP_HTTP_PORT", "8080")),
        vertex_ai_default_model="Double",
    )
    with Triton(config=config) as triton:
        triton.bind("Double", double, inputs=[Tensor(name="x", **one)], outputs=[Tensor(name="y", **one)])
        triton.serve()


if __name__ == "__main__":
    main()
