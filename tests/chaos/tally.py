"""What came of the requests."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable

import grpc

from penstock import PenstockError

KEPT = 20
"""So many of the wrong outcomes are told in full."""


class WrongError(Exception):
    """An answer that is not the one to what was asked, or one too many."""


class RefusedError(Exception):
    """A refusal, by its HTTP status."""

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
    """The HTTP status of an error that the native client raised; 0 if there was no answer."""
    return error.status or 0


class Tally:
    """Counts outcomes by the kind of call, from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self.outcomes: dict[str, Counter[str]] = {}
        self.failures: list[str] = []

    def number(self) -> int:
        """A number that no other request has."""
        with self._lock:
            return next(self._ids)

    def run(self, name: str, call: Callable[[], None], allowed: frozenset[int]) -> tuple[str, float]:
        """Makes a call and notes what came of it, and how long it took.

        `allowed` are the statuses of refusals that it may get. Every other one is unexpected, and no answer at all is a
        loss.
        """
        began = time.monotonic()
        outcome, told = "right", ""
        try:
            call()
        except WrongError as error:
            outcome, told = "wrong", str(error)
        except (RefusedError, grpc.RpcError, PenstockError) as error:
            status = _status(error)
            outcome = f"refused {status}" if status in allowed else ("unexpected" if status else "lost")
            told = repr(error)
        except Exception as error:
            outcome, told = "lost", repr(error)
        took = time.monotonic() - began
        with self._lock:
            self.outcomes.setdefault(name, Counter())[outcome] += 1
            if outcome in ("wrong", "unexpected", "lost") and len(self.failures) < KEPT:
                self.failures.append(f"{name}: {outcome}: {told[:300]}")
        return outcome, took

    def total(self, outcome: str) -> int:
        """How many calls had this outcome."""
        with self._lock:
            return sum(counter[outcome] for counter in self.outcomes.values())


def _status(error: Exception) -> int:
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, grpc.RpcError):
        return CODES.get(error.code(), 0)
    assert isinstance(error, PenstockError)
    return status_of(error)
