"""A model whose calls hold the GIL in C for as many seconds as their input; each creates a file in GATE."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import numpy as np

from penstock import Tensor, model

FOLDER = Path(os.environ["GATE"])


def hold(seconds: float) -> None:
    (FOLDER / f"entered-{time.monotonic_ns()}").touch()
    # Unlike CDLL, which releases the GIL around a call.
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


@model(inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])])
class Holding:
    def __init__(self):
        hold(float(os.environ.get("HOLD_WHILE_LOADING", "0")))

    def __call__(self, x):
        if x[0]:
            hold(float(x[0]))
        return x * 2

    def close(self):
        if (FOLDER / "closing").exists():
            hold(1000)
