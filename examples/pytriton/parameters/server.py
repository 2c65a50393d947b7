"""Divides by what a request's header or parameter says."""

from typing import Any

import numpy as np
from pytriton.model_config import Tensor
from pytriton.triton import Triton, TritonConfig


def divide(requests: Any) -> list[dict[str, np.ndarray]]:
    """A header is text; a parameter is what the caller made it."""
    answers = []
    for request in requests:
        by = request.parameters.get("header_divisor") or request.parameters.get("divisor", 1)
        answers.append({"quotient": request["number"] / np.float32(by)})
    return answers


def main() -> None:
    """Serves until it is interrupted."""
    one = {"dtype": np.float32, "shape": (1,)}
    # Only headers whose names match reach the callable.
    forwarded = TritonConfig(http_header_forward_pattern="header_.*", grpc_header_forward_pattern="header_.*")
    with Triton(config=forwarded) as triton:
        triton.bind("Divide", divide, inputs=[Tensor(name="number", **one)], outputs=[Tensor(name="quotient", **one)])
        triton.serve()


if __name__ == "__main__":
    main()
