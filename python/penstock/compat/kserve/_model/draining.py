"""`InstanceCount`: waits until an unloaded model has finished its requests, so that it is stopped only then."""

from __future__ import annotations

import threading

__all__ = ["InstanceCount"]


class InstanceCount:
    """The running instances of a model."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instances = 0
        self._drained = threading.Event()

    def begin(self) -> None:
        """Adds an instance; called before any instance ends."""
        with self._lock:
            self._instances += 1

    def end(self) -> None:
        """Removes an instance, after its last request."""
        with self._lock:
            self._instances -= 1
            if self._instances == 0:
                self._drained.set()

    def wait(self, timeout: float) -> bool:
        """Waits until no instance runs; returns whether that was so within `timeout` seconds."""
        return self._instances == 0 or self._drained.wait(timeout)
