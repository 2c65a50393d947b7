"""Shared by the scripts: the dialect, and responses for both dialects."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import urllib.request
from typing import Any

import numpy as np

NEW = os.environ["PENSTOCK_KSERVE_DIALECT"] == "0.21"
"""True in KServe's newer dialect. KServe itself ignores the variable."""


def respond(payload: Any, name: str, outputs: list[Any], **more: Any) -> Any:
    """Returns a response in the encoding that the request specifies."""
    from kserve import InferResponse

    if NEW:
        more = {
            "use_binary_outputs": payload.use_binary_outputs,
            "requested_outputs": payload.request_outputs,
            **more,
        }
    return InferResponse(payload.id, name, outputs, **more)


def output(name: str, array: Any, datatype: str, payload: Any) -> Any:
    """Returns an output; raw if the request is."""
    from kserve import InferOutput

    tensor = InferOutput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=payload.use_binary_outputs or datatype == "FP16")
    return tensor


def numpy_of(payload: Any) -> Any:
    """Returns the first rows of a request of either protocol."""
    if isinstance(payload, dict):
        return np.array(payload["instances"])
    return payload.inputs[0].as_numpy()


def report_when_up(http: int, **more: int) -> None:
    """Prints the server's address once it responds, and stops it at the end of standard input."""

    def watch() -> None:
        while not up(f"http://127.0.0.1:{http}/v2/health/ready"):
            time.sleep(0.02)
        with open(os.environ["OBSERVED"], "w") as file:
            file.write(json.dumps({"http": http, **more}) + "\n")
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def up(url: str) -> bool:
    """Returns whether the server is up."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False
