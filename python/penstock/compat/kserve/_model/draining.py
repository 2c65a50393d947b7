"""Whether a model still computes: one that was taken out finishes what it has, and is to be stopped only then."""

from __future__ import annotations

import threading

__all__ = ["Life"]


class Life:
    """Of a model, from its first instance to the end of its last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instances = 0
        self._over = threading.Event()

    def begin(self) -> None:
        """Called for each instance, before any of them ends."""
        with self._lock:
            self._instances += 1

    def end(self) -> None:
        """Called for each instance, after its last request."""
        with self._lock:
            self._instances -= 1
            if self._instances == 0:
                self._over.set()

    def wait(self, patience: float) -> bool:
        """Waits until it is over, if it has begun. Whether that was so within so many seconds."""
        return self._instances == 0 or self._over.wait(patience)
