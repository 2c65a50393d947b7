"""Waiting for what another thread or process does: until it is so, not for a guessed time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds after which something that was to happen did not. Far more than it takes on a busy machine."""


def until(holds: Callable[[], T], what: str = "", patience: float = PATIENCE) -> T:
    """Looks until `holds()` is true, and gives what it gave."""
    deadline = time.monotonic() + patience
    while not (found := holds()):
        assert time.monotonic() < deadline, f"waited {patience:g} s in vain for {what or holds}"
        time.sleep(0.005)
    return found


class Gate:
    """Holds handlers back: each call of `enter` is seen by the test, and goes on when the test says so."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self._go = threading.Event()

    def enter(self) -> None:
        """For the handler."""
        self.entered.release()
        assert self._go.wait(PATIENCE), "the test never opened the gate"

    def await_entered(self, count: int = 1) -> None:
        """Waits until that many more calls have come."""
        for _ in range(count):
            assert self.entered.acquire(timeout=PATIENCE), "no handler came to the gate"

    def open(self) -> None:
        """Lets everybody through from now on."""
        self._go.set()


def at_once(calls: Iterable[Callable[[], T]]) -> list[Any]:
    """The futures of calls that run each on a thread of its own; they end with the calls."""
    calls = list(calls)
    pool = ThreadPoolExecutor(max_workers=max(1, len(calls)))
    futures = [pool.submit(call) for call in calls]
    pool.shutdown(wait=False)
    return futures
