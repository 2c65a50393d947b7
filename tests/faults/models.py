"""A model whose input selects a fault."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from typing import Any

import numpy as np

from penstock import Batching, Tensor, model


class OutOfMemoryError(RuntimeError):
    """An error with the name that device libraries use."""


def recurse(depth: int) -> int:
    return recurse(depth + 1) + 1


def hold_gil(microseconds: int) -> None:
    # Unlike CDLL, which releases the GIL around a call.
    ctypes.PyDLL(None).usleep(microseconds)


def fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def leave_a_thread(x: Any) -> None:
    def scribble() -> None:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            x[...] = -1
            time.sleep(0.001)

    threading.Thread(target=scribble, daemon=True).start()


FAULTS = {
    1: "raises",
    2: "wrong count",
    3: "wrong shape",
    4: "wrong datatype",
    5: "endless recursion",
    6: "KeyboardInterrupt",
    7: "SystemExit",
    8: "device out of memory",
    9: "holds the GIL in C",
    10: "prints 100 MB",
    11: "forks",
    12: "threads that outlive it",
}


@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])], batching=Batching(max_size=4))
def faulty(x: Any) -> Any:
    """Twice its input. The first number of a row may be one of FAULTS, negative."""
    fault = FAULTS.get(int(-x.min()), "")
    if fault == "raises":
        raise RuntimeError("on request")
    if fault == "wrong count":
        return x, x
    if fault == "wrong shape":
        return x[:, :1]
    if fault == "wrong datatype":
        return x.astype("M8[s]")
    if fault == "endless recursion":
        recurse(0)
    if fault in ("KeyboardInterrupt", "SystemExit"):
        raise {"KeyboardInterrupt": KeyboardInterrupt, "SystemExit": SystemExit}[fault]
    if fault == "device out of memory":
        raise OutOfMemoryError
    if fault == "holds the GIL in C":
        hold_gil(1_500_000)
    if fault == "prints 100 MB":
        for _ in range(100):
            sys.stdout.write("x" * 1_000_000 + "\n")
    if fault == "forks":
        fork()
    if fault == "threads that outlive it":
        response = x * 2
        leave_a_thread(x)
        return response
    return x * 2
