"""Runs a server in the foreground: says what is served, waits for a signal, drains."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from penstock import _present
from penstock.server import Server

_LOOKS_EVERY = 0.1
"""Seconds between two looks at whether a signal came."""

_AT_ONCE_GRACE = 1.0
"""Seconds that a stop at once gives the compiled part to let go."""

_UNFINISHED = "requests that have not finished"


class _SignalledError(BaseException):
    """A signal came while models load. Not an `Exception`: nothing on its way out may swallow it."""


class _Signals:
    """How many signals came. Counted, not raised, once the server runs: a raise could strike anywhere."""

    def __init__(self) -> None:
        self.count = 0
        self.interrupt = False

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.interrupt:
            raise _SignalledError

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catches SIGINT and SIGTERM; in a thread other than the main one, none."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run(server: Server, models: Iterable[Any]) -> list[str]:
    """Starts the server, prints what it serves, and blocks until it has stopped.

    The first SIGINT or SIGTERM drains, a second one stops at once. One that comes while models load
    ends the start.

    Returns:
        The names of what was cut off; empty when all requests finished.
    """
    signals = _Signals()
    with signals.caught():
        try:
            signals.interrupt = True
            server.start()
            signals.interrupt = False
        except _SignalledError:
            signals.interrupt = False
            return server.stop(0.0)
        print(_present.describe(server, models), flush=True)
        while signals.count == 0:
            if server.wait(_LOOKS_EVERY):
                return server.stop()
        return _drain(server, signals)


def _drain(server: Server, signals: _Signals) -> list[str]:
    _say(f"stopping: requests have {server.config.drain_timeout:g} s to finish; signal again to stop at once")
    stop = _Stop(server, None)
    while not stop.has_ended(_LOOKS_EVERY):
        if signals.count > 1:
            _say("stopping at once")
            return _stop_at_once(server, stop)
    return stop.cut()


def _stop_at_once(server: Server, stop: _Stop) -> list[str]:
    until = time.monotonic() + _AT_ONCE_GRACE
    hastened = _Stop(server, 0.0)
    # Whatever the second stop says, only the first one knows whether the server has let go.
    for one in (hastened, stop):
        if not one.has_ended(max(0.0, until - time.monotonic())):
            return [_UNFINISHED]
    return [*stop.cut(), *hastened.cut()]


class _Stop:
    """A stop on a thread of its own, so that this one can look for a second signal meanwhile."""

    def __init__(self, server: Server, timeout: float | None) -> None:
        self._cut: list[str] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(server, timeout), name="penstock-stop", daemon=True)
        self._thread.start()

    def has_ended(self, patience: float) -> bool:
        """Whether the stop ends within so many seconds."""
        self._thread.join(patience)
        return not self._thread.is_alive()

    def cut(self) -> list[str]:
        """What was cut off, once the stop has ended."""
        if self._failure is not None:
            raise self._failure
        return self._cut

    def _run(self, server: Server, timeout: float | None) -> None:
        try:
            self._cut = server.stop(timeout)
        except BaseException as error:
            self._failure = error


def _say(text: str) -> None:
    print(f"penstock: {text}", file=sys.stderr, flush=True)
