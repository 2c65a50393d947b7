"""`InFlightWindow`: limits of the waiting and running requests of a `FuturesModelClient`."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from penstock.compat.pytriton.client.exceptions import PyTritonClientClosedError, PyTritonClientQueueFullError

__all__ = ["InFlightWindow"]

Request = TypeVar("Request", bound="Future[Any]")


class InFlightWindow(Generic[Request]):
    """Waiting requests, and requests in flight.

    Args:
        max_in_flight: Maximum requests in flight.
        max_requests: Maximum of waiting requests and requests in flight; None means no limit.
    """

    def __init__(self, max_in_flight: int, max_requests: int | None) -> None:
        self._max_in_flight, self._max_requests = max_in_flight, max_requests
        self._changed = threading.Condition()
        self._waiting: deque[Request] = deque()
        self._in_flight: set[Future[Any]] = set()
        self._settling = 0
        self._closed = False

    def add(self, request: Request, timeout_s: float | None) -> None:
        """Adds a request at the end of the queue.

        Raises:
            PyTritonClientClosedError: the window is closed.
            PyTritonClientQueueFullError: the window had no room in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._has_room(), timeout_s):
                raise PyTritonClientQueueFullError("Queue is full")
            self.check_open()
            self._waiting.append(request)

    def add_in_flight(self, request: Future[Any]) -> None:
        """Adds a request that is in flight at once."""
        with self._changed:
            self.check_open()
            self._in_flight.add(request)

    def has_next(self) -> bool:
        """True if a request is waiting and the window has room."""
        return bool(self._waiting) and len(self._in_flight) < self._max_in_flight

    def take_next(self) -> Request | None:
        """Moves the first waiting request in flight, and returns it."""
        with self._changed:
            if not self.has_next():
                return None
            request = self._waiting.popleft()
            self._in_flight.add(request)
            return request

    def take_waiting(self) -> list[Request]:
        """Removes and returns all waiting requests. Each needs a call of `notify_done`."""
        with self._changed:
            taken = [*self._waiting]
            self._waiting.clear()
            self._settling += len(taken)
            self._changed.notify_all()
            return taken

    def remove(self, request: Future[Any]) -> bool:
        """Removes a request, before its future is done: a client that sees the result then finds room.

        Returns:
            True if the request was in flight, and needs a call of `notify_done`.
        """
        with self._changed:
            if request not in self._in_flight:
                return False
            self._in_flight.discard(request)
            self._settling += 1
            self._changed.notify_all()
            return True

    def notify_done(self) -> None:
        """Notes that the future of a removed request is done."""
        with self._changed:
            self._settling -= 1
            self._changed.notify_all()

    def close(self, wait: bool) -> None:
        """Rejects further requests, and optionally waits for the earlier ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if wait:
                self._changed.wait_for(self._is_empty)

    def check_open(self) -> None:
        """Raises an error if the window is closed."""
        if self._closed:
            raise PyTritonClientClosedError("FutureModelClient is already closed")

    def is_drained(self) -> bool:
        """True if the window is closed and all requests are done."""
        with self._changed:
            return self._closed and self._is_empty()

    def _has_room(self) -> bool:
        return self._max_requests is None or len(self._waiting) + len(self._in_flight) < self._max_requests

    def _is_empty(self) -> bool:
        return not self._waiting and not self._in_flight and not self._settling
