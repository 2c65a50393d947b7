"""Calls of the unmodified official client; prints the results as JSON. Runs in that client's Python.

Its hosts end in `.localhost`, which some resolvers do not know, so this script resolves them itself.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import modelbit
import pandas as pd

_resolve = socket.getaddrinfo


def _resolve_localhost(host: Any, *more: Any, **named: Any) -> Any:
    return _resolve("127.0.0.1" if str(host).endswith(".localhost") else host, *more, **named)


socket.getaddrinfo = _resolve_localhost  # type: ignore[assignment]
TARGET = {"region": f"localhost:{sys.argv[1]}", "workspace": "acme", "branch": "main"}


def infer(deployment: str, data: Any, **more: Any) -> Any:
    return modelbit.get_inference(deployment=deployment, data=data, **{**TARGET, **more})


def failure(call: Callable[[], Any]) -> Any:
    start = time.monotonic()
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error), time.monotonic() - start]
    return None


FRAME = pd.DataFrame({"x": [1.5, 2.5], "name": ["a", "b"]}, index=[7, 9])
results = {
    "single": infer("doubler", 21),
    "batch": infer("doubler", [[1, 10], [2, 11]]),
    "chunked": infer("doubler", [[place, place] for place in range(1000)], batch_size=64, batch_concurrency=4),
    "bytes": infer("doubler", [[place, "x" * 100] for place in range(50)], batch_bytes=2000),
    "frame": infer("frame", FRAME),
    "version": infer("doubler", 1, version=1),
    "alias": infer("doubler", 1, version="official"),
    "timeout": failure(lambda: infer("sleeps", 30, timeout_seconds=1)),
    "fails": failure(lambda: infer("fails", 0)),
    "fails in a batch": failure(lambda: infer("fails", [["a", 1], ["b", 0]])),
    "count": infer("fails", "count"),
    "unknown": failure(lambda: infer("unknown", 0)),
    "key": failure(lambda: infer("doubler", 1, api_key="wrong")),
}
print(json.dumps(results))
