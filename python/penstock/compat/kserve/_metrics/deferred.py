"""`Deferred`: consumes items in batches, later and on another thread, so that responses do not wait for it."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

__all__ = ["Deferred"]

Item = TypeVar("Item")

_DELAY = 0.01
"""Seconds for which an item waits for others."""


class Deferred(Generic[Item]):
    """Consumes items after a short delay, in order and together, on its own thread.

    Items that wait when the program ends are consumed first.

    Args:
        consume: Receives the items.
    """

    def __init__(self, consume: Callable[[list[Item]], None]) -> None:
        self._consume = consume
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        # A forked child does not have the thread.
        self._lock = threading.Lock()
        self._items: list[Item] = []
        self._thread: ThreadPoolExecutor | None = None
        self.pending = False
        """True while an item waits or is being consumed."""

    def add(self, item: Item) -> None:
        """Adds an item."""
        with self._lock:
            self._items.append(item)
            if self.pending:
                return
            self.pending = True
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="kserve-later")
        try:
            self._thread.submit(self._drain, _DELAY)
        except RuntimeError:
            # The interpreter shuts down.
            self._drain(0)

    def _drain(self, delay: float) -> None:
        while True:
            time.sleep(delay)
            with self._lock:
                items, self._items = self._items, []
            try:
                self._consume(items)
            except Exception:
                # No caller waits for this, so the traceback is all there is.
                traceback.print_exc()
            with self._lock:
                # `pending` is cleared only now: items added meanwhile must not overtake these.
                if not self._items:
                    self.pending = False
                    return
