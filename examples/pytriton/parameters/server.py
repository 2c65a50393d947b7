"""Server that divides by a request's header or parameter."""

from typing import Any

import numpy as np
from pytriton.model_config import Tensor
from pytriton.triton import Triton, TritonConfig


def divide(requests: Any) -> list[dict[str, np.ndarray]]:
    """Divides the inputs. A header is text, and a parameter has the client's type."""
    answers = []
    for request in requests:
        by = request.parameters.get("header_divisor") or request.parameters.get("divisor", 1)
        answers.append({"quotient": request["number"] / np.float32(by)})
    return answers


def main() -> None:
    """Serves until a signal."""
    one = {"dtype": np.float32, "shape": (1,)}
    # The callable receives only headers whose names match.
    forwarded = TritonConfig(http_header_forward_pattern="header_.*", grpc_header_forward_pattern="header_.*")
    with Triton(config=forwarded) as triton:
        triton.bind("Divide", divide, inputs=[Tensor(name="number", **one)], outputs=[Tensor(name="quotient", **one)])
        triton.serve()


if __name__ == "__main__":
    main()
