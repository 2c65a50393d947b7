"""Signals that end a server that is served in the foreground: counted, not raised, so that none strikes anywhere."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Signals"]

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""What is replaced. A script's own handlers stay."""


class Signals:
    """How many came."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def caught(self) -> Iterator[Signals]:
        """Counts SIGINT and SIGTERM; none on a thread other than the main one."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {number: signal.getsignal(number) for number in _DEFAULTS}
        ours = [number for number, default in _DEFAULTS.items() if before[number] == default]
        for number in ours:
            signal.signal(number, self._count)
        try:
            yield self
        finally:
            for number in ours:
                signal.signal(number, before[number])

    def _count(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.count += 1
