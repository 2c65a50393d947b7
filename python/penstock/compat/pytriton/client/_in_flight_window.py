"""How many requests of a `FuturesModelClient` there are, and which of them may go on."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from penstock.compat.pytriton.client.exceptions import PyTritonClientClosedError, PyTritonClientQueueFullError

__all__ = ["Window"]

Request = TypeVar("Request", bound="Future[Any]")


class Window(Generic[Request]):
    """Requests that wait for their turn, and requests under way.

    Args:
        most_under_way: The most that are under way.
        most: The most of both kinds; None is no limit.
    """

    def __init__(self, most_under_way: int, most: int | None) -> None:
        self._most_under_way, self._most = most_under_way, most
        self._changed = threading.Condition()
        self._waiting: deque[Request] = deque()
        self._under_way: set[Future[Any]] = set()
        self._settling = 0
        self._closed = False

    def enter(self, request: Request, patience_s: float | None) -> None:
        """Takes a request in, as the last that waits.

        Raises:
            PyTritonClientClosedError: none are taken in any more.
            PyTritonClientQueueFullError: there was no room in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._has_room(), patience_s):
                raise PyTritonClientQueueFullError("Queue is full")
            self.check_open()
            self._waiting.append(request)

    def enter_beside(self, request: Future[Any]) -> None:
        """Takes in a request that is under way at once."""
        with self._changed:
            self.check_open()
            self._under_way.add(request)

    def has_next(self) -> bool:
        """Whether a request waits that may go on."""
        return bool(self._waiting) and len(self._under_way) < self._most_under_way

    def next(self) -> Request | None:
        """The request that may go on, which is then under way."""
        with self._changed:
            if not self.has_next():
                return None
            request = self._waiting.popleft()
            self._under_way.add(request)
            return request

    def give_up(self) -> list[Request]:
        """All that wait, which then do not; each is to be `settled`."""
        with self._changed:
            given_up = [*self._waiting]
            self._waiting.clear()
            self._settling += len(given_up)
            self._changed.notify_all()
            return given_up

    def leave(self, request: Future[Any]) -> bool:
        """To be called before a request's future is done: whoever sees that it is finds room.

        Returns:
            Whether it was under way, so that it is to be `settled`.
        """
        with self._changed:
            if request not in self._under_way:
                return False
            self._under_way.discard(request)
            self._settling += 1
            self._changed.notify_all()
            return True

    def settled(self) -> None:
        """To be called after its future is done."""
        with self._changed:
            self._settling -= 1
            self._changed.notify_all()

    def close(self, wait: bool) -> None:
        """Takes no more in, and waits for those that are."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if wait:
                self._changed.wait_for(self._is_empty)

    def check_open(self) -> None:
        """Refuses what comes after `close`."""
        if self._closed:
            raise PyTritonClientClosedError("FutureModelClient is already closed")

    def is_over(self) -> bool:
        """Whether it is closed, and all requests are done."""
        with self._changed:
            return self._closed and self._is_empty()

    def _has_room(self) -> bool:
        return self._most is None or len(self._waiting) + len(self._under_way) < self._most

    def _is_empty(self) -> bool:
        return not self._waiting and not self._under_way and not self._settling
