"""The client under test, of PyTriton or Penstock: one kind of request for some seconds. Prints the results as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from pytriton.client import FuturesModelClient, ModelClient

ROW = np.ones((1, 16), np.float32)
LARGE = np.ones(4 << 20, np.float32)
WINDOW = 64
"""Number of futures in flight."""


def one_by_one(call: Callable[[], Any], seconds: float) -> list[float]:
    """Seconds of each call, after a warm-up call."""
    call()
    took, end = [], time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        call()
        took.append(time.perf_counter() - began)
    return took


def serial(url: str, seconds: float) -> dict[str, float]:
    """Calls `infer_batch` with one row after the other."""
    with ModelClient(url, "dynamic") as client:
        return told(one_by_one(lambda: client.infer_batch(ROW), seconds))


def large(url: str, seconds: float) -> dict[str, float]:
    """Sends and receives 16 MiB."""
    with ModelClient(url, "echo") as client:
        return told(one_by_one(lambda: client.infer_sample(LARGE), seconds))


def futures(url: str, seconds: float) -> dict[str, float]:
    """Sends many requests at once."""
    with FuturesModelClient(url, "dynamic", max_workers=WINDOW, max_queue_size=WINDOW) as client:
        client.infer_batch(ROW).result()
        waiting: deque[Any] = deque(client.infer_batch(ROW) for _ in range(WINDOW))
        count, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            waiting.popleft().result()
            waiting.append(client.infer_batch(ROW))
            count += 1
        elapsed = time.perf_counter() - began
        while waiting:
            waiting.popleft().result()
    return {"rate": count / elapsed}


def told(took: list[float]) -> dict[str, float]:
    """The rate and the latencies of these calls."""
    took.sort()
    return {
        "rate": len(took) / sum(took),
        "p50_ms": took[len(took) // 2] * 1e3,
        "p99_ms": took[len(took) * 99 // 100] * 1e3,
    }


if __name__ == "__main__":
    how, url, seconds = sys.argv[1:]
    print(json.dumps({"serial": serial, "large": large, "futures": futures}[how](url, float(seconds))))
