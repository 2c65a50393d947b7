"""Waiting for conditions in other threads or processes, instead of sleeping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds until a wait fails, far more than needed on a busy machine."""


def until(holds: Callable[[], T], what: str = "", patience: float = PATIENCE) -> T:
    """Polls until `holds()` is true, and returns its result."""
    deadline = time.monotonic() + patience
    while not (result := holds()):
        assert time.monotonic() < deadline, f"waited {patience:g} s in vain for {what or holds}"
        time.sleep(0.005)
    return result


class Gate:
    """Holds handlers: the test sees each call of `enter`, and releases them."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self._go = threading.Event()

    def enter(self) -> None:
        """Called by the handler."""
        self.entered.release()
        assert self._go.wait(PATIENCE), "the test never opened the gate"

    def await_entered(self, count: int = 1) -> None:
        """Waits for that many more calls."""
        for _ in range(count):
            assert self.entered.acquire(timeout=PATIENCE), "no handler reached the gate"

    def open(self) -> None:
        """Releases all calls from now on."""
        self._go.set()


def at_once(calls: Iterable[Callable[[], T]]) -> list[Any]:
    """Futures of calls that each run on a separate thread, which ends with the call."""
    calls = list(calls)
    pool = ThreadPoolExecutor(max_workers=max(1, len(calls)))
    futures = [pool.submit(call) for call in calls]
    pool.shutdown(wait=False)
    return futures
