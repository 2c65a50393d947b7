"""`time_limit`: interrupts a call on a process's main thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from penstock import Timeout

__all__ = ["time_limit"]


class _TimeLimitError(BaseException):
    """Raised in the interrupted call. Not an `Exception`, so that the app does not handle it as its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupts the block after a number of seconds; 0 for no limit. Has no effect off the main thread.

    Python code is interrupted anywhere, also in a sleep; C code when it returns to Python. If the block does not end,
    `Processes(hang_after=...)` kills the process.

    Raises:
        Timeout: the limit was exceeded.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _TimeLimitError

    previous = signal.signal(signal.SIGALRM, interrupt)
    # Repeats every second: the app may catch the first in a `finally` or a bare `except`.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        try:
            yield
        finally:
            _disarm(previous)
    except _TimeLimitError:
        # The signal may have arrived within `_disarm`.
        _disarm(previous)
        raise Timeout(f"infer did not answer within {seconds:g}s") from None


def _disarm(previous: Any) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, previous)
