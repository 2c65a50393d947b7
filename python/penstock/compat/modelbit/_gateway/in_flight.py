"""Count of requests in flight per deployment."""

from __future__ import annotations

from threading import Lock
from types import TracebackType

from penstock.compat.modelbit._spec.deployment import Deployment

__all__ = ["InFlight"]


class InFlight:
    """Requests in flight, by deployment."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[tuple[str, int], int] = {}

    def track(self, deployment: Deployment) -> _Tracked:
        """Returns a context manager that counts one request."""
        return _Tracked(self, deployment.key)

    def has(self, deployment: Deployment) -> bool:
        """Returns whether the deployment has a request in flight."""
        return self._counts.get(deployment.key, 0) > 0

    def add(self, key: tuple[str, int], change: int) -> None:
        """Adds to the count of a deployment."""
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + change


class _Tracked:
    """One request in flight. A class rather than a generator: it is entered for every request."""

    __slots__ = ("_counts", "_key")

    def __init__(self, counts: InFlight, key: tuple[str, int]) -> None:
        self._counts, self._key = counts, key

    def __enter__(self) -> None:
        self._counts.add(self._key, 1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._counts.add(self._key, -1)
