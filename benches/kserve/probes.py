"""Liveness probes like those of kubelet, while the server is under load."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_EVERY = 0.02
"""Seconds between two probes. Kubelet's are rarer; a 99th percentile needs some hundred."""
_LONGEST = 30.0


@contextmanager
def probing(address: str) -> Iterator[list[float]]:
    """Seconds of each probe of `/` while the block runs; a failed probe counts as the longest."""
    took: list[float] = []
    over = threading.Event()

    def probe() -> None:
        while not over.is_set():
            began = time.perf_counter()
            took.append(time.perf_counter() - began if _lives(address) else _LONGEST)
            over.wait(_EVERY)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


def _lives(address: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=_LONGEST)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def p99_ms(took: list[float]) -> float:
    """The 99th percentile."""
    return sorted(took)[len(took) * 99 // 100] * 1e3
