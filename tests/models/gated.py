"""A model whose calls wait for a test: each creates a file in the folder GATE, and waits for `open` there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from penstock import Tensor, model

FOLDER = Path(os.environ["GATE"])


@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
def gated(x):
    """Twice its input, after the gate opens."""
    (FOLDER / f"entered-{time.monotonic_ns()}").touch()
    while not (FOLDER / "open").exists():
        time.sleep(0.005)
    return x * 2
