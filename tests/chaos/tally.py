"""Outcomes of requests."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable

import grpc

from penstock import PenstockError

MAX_FAILURES = 20
"""Number of failures that are reported in full."""


class WrongError(Exception):
    """A response that does not match its request, or a duplicate."""


class RefusedError(Exception):
    """A refusal with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


CODES = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}


def status_of(error: PenstockError) -> int:
    """HTTP status of an error of the native client; 0 without a response."""
    return error.status or 0


class Tally:
    """Counts outcomes by the kind of call, from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self.outcomes: dict[str, Counter[str]] = {}
        self.failures: list[str] = []

    def number(self) -> int:
        """A unique request number."""
        with self._lock:
            return next(self._ids)

    def run(self, name: str, call: Callable[[], None], allowed: frozenset[int]) -> tuple[str, float]:
        """Makes a call, and records its outcome and duration.

        `allowed` are the statuses of expected refusals. Others are unexpected; a call without a response is lost.
        """
        start = time.monotonic()
        outcome, detail = "right", ""
        try:
            call()
        except WrongError as error:
            outcome, detail = "wrong", str(error)
        except (RefusedError, grpc.RpcError, PenstockError) as error:
            status = _status(error)
            outcome = f"refused {status}" if status in allowed else ("unexpected" if status else "lost")
            detail = repr(error)
        except Exception as error:
            outcome, detail = "lost", repr(error)
        duration = time.monotonic() - start
        with self._lock:
            self.outcomes.setdefault(name, Counter())[outcome] += 1
            if outcome in ("wrong", "unexpected", "lost") and len(self.failures) < MAX_FAILURES:
                self.failures.append(f"{name}: {outcome}: {detail[:300]}")
        return outcome, duration

    def total(self, outcome: str) -> int:
        """Number of calls with this outcome."""
        with self._lock:
            return sum(counter[outcome] for counter in self.outcomes.values())


def _status(error: Exception) -> int:
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, grpc.RpcError):
        return CODES.get(error.code(), 0)
    assert isinstance(error, PenstockError)
    return status_of(error)
