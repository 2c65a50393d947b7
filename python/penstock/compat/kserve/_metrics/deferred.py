"""`Later`: does with many things at once what is not to keep an answer waiting."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

__all__ = ["Later"]

Thing = TypeVar("Thing")

_MOMENT = 0.01
"""Seconds that things wait for others."""


class Later(Generic[Thing]):
    """Hands on what it is given a moment later, in its order and together, on a thread of its own.

    What waits when the program ends is handed on before.

    Args:
        take: Is handed the things.
    """

    def __init__(self, take: Callable[[list[Thing]], None]) -> None:
        self._take = take
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        # A child of this process has no thread.
        self._lock = threading.Lock()
        self._things: list[Thing] = []
        self._thread: ThreadPoolExecutor | None = None
        self.waits = False
        """Whether something waits, or is about to be handed on."""

    def add(self, thing: Thing) -> None:
        """Takes one more."""
        with self._lock:
            self._things.append(thing)
            if self.waits:
                return
            self.waits = True
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="kserve-later")
        try:
            self._thread.submit(self._hand_on, _MOMENT)
        except RuntimeError:
            # The program ends.
            self._hand_on(0)

    def _hand_on(self, moment: float) -> None:
        while True:
            time.sleep(moment)
            with self._lock:
                things, self._things = self._things, []
            try:
                self._take(things)
            except Exception:
                # Nobody waits for it who could be told.
                traceback.print_exc()
            with self._lock:
                # Only now: what came meanwhile was not to overtake these.
                if not self._things:
                    self.waits = False
                    return
