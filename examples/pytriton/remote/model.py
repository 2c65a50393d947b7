"""Attaches a model that runs in this process to the server. Start it twice, with different names and factors."""

import os
import sys

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import Tensor
from pytriton.triton import RemoteTriton

name, factor = sys.argv[1], float(sys.argv[2])
url = sys.argv[3] if len(sys.argv) > 3 else "localhost:8000"


@batch
def multiply(x: np.ndarray) -> dict[str, np.ndarray]:
    """Multiplies by this script's factor."""
    return {"y": (x * factor).astype(np.float32)}


one = {"dtype": np.float32, "shape": (1,)}
with RemoteTriton(url=url, access_token=os.environ.get("ACCESS_TOKEN", "let-me-in")) as triton:
    triton.bind(name, multiply, inputs=[Tensor(name="x", **one)], outputs=[Tensor(name="y", **one)])
    triton.serve()
