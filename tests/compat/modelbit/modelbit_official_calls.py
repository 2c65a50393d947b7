"""Calls of the unmodified official client; prints the results as JSON. Runs in that client's Python.

Its hosts end in `.localhost`, which not every resolver knows: that alone is answered here.
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


def _here(host: Any, *more: Any, **named: Any) -> Any:
    return _resolve("127.0.0.1" if str(host).endswith(".localhost") else host, *more, **named)


socket.getaddrinfo = _here  # type: ignore[assignment]
WHERE = {"region": f"localhost:{sys.argv[1]}", "workspace": "acme", "branch": "main"}


def ask(deployment: str, data: Any, **more: Any) -> Any:
    return modelbit.get_inference(deployment=deployment, data=data, **{**WHERE, **more})


def failure(call: Callable[[], Any]) -> Any:
    began = time.monotonic()
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error), time.monotonic() - began]
    return None


FRAME = pd.DataFrame({"x": [1.5, 2.5], "name": ["a", "b"]}, index=[7, 9])
received = {
    "single": ask("doubler", 21),
    "batch": ask("doubler", [[1, 10], [2, 11]]),
    "chunked": ask("doubler", [[place, place] for place in range(1000)], batch_size=64, batch_concurrency=4),
    "bytes": ask("doubler", [[place, "x" * 100] for place in range(50)], batch_bytes=2000),
    "frame": ask("frame", FRAME),
    "version": ask("doubler", 1, version=1),
    "alias": ask("doubler", 1, version="official"),
    "timeout": failure(lambda: ask("sleeps", 30, timeout_seconds=1)),
    "fails": failure(lambda: ask("fails", 0)),
    "fails in a batch": failure(lambda: ask("fails", [["a", 1], ["b", 0]])),
    "count": ask("fails", "count"),
    "gone": failure(lambda: ask("gone", 0)),
    "key": failure(lambda: ask("doubler", 1, api_key="wrong")),
}
print(json.dumps(received))
