"""How many requests each deployment computes now."""

from __future__ import annotations

from threading import Lock
from types import TracebackType

from penstock.compat.modelbit._spec.deployment import Deployment

__all__ = ["UnderWay"]


class UnderWay:
    """Counts requests that are computed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[tuple[str, int], int] = {}

    def of(self, deployment: Deployment) -> _One:
        """Counts one of a deployment's while it is entered."""
        return _One(self, deployment.key)

    def has(self, deployment: Deployment) -> bool:
        """Whether there is one."""
        return self._counts.get(deployment.key, 0) > 0

    def add(self, key: tuple[str, int], more: int) -> None:
        """Counts one more, or one less."""
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + more


class _One:
    """One request."""

    __slots__ = ("_counts", "_key")

    def __init__(self, counts: UnderWay, key: tuple[str, int]) -> None:
        self._counts, self._key = counts, key

    def __enter__(self) -> None:
        self._counts.add(self._key, 1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._counts.add(self._key, -1)
