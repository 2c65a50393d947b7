"""`limited`: ends a call that takes too long, where it runs in a process's main thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from penstock import Timeout

__all__ = ["limited"]


class _TooLongError(BaseException):
    """Not an Exception, so that an app does not take it for one of its own."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ends what runs inside after so many seconds; 0 is any time.

    Python code is interrupted wherever it is, a sleep too; code in C when it comes back to Python. What does not end
    is killed with its process, see `Processes(hang_after=...)`.

    Raises:
        Timeout: it took too long.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, end)
    # Again and again: an app may hold the first in a `finally`, or take every exception for its own.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        try:
            yield
        finally:
            _disarm(before)
    except _TooLongError:
        # It may have come while it was taken back.
        _disarm(before)
        raise Timeout(f"infer did not answer within {seconds:g}s") from None


def _disarm(before: Any) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)
