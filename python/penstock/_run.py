"""Runs a server in the foreground: says what is served, waits for a signal, drains."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock import _forks, _present
from penstock._reload import pid_file
from penstock._say import say
from penstock.server import Server

if TYPE_CHECKING:
    from penstock import _core
    from penstock._reload.reloader import Reloader

_LOOKS_EVERY = 0.1
"""Seconds between two looks at whether a signal came."""

_AT_ONCE_GRACE = 1.0
"""Seconds that a stop at once gives the compiled part to let go."""

_UNFINISHED = "requests that have not finished"


class _SignalledError(BaseException):
    """A signal came while models load. Not an `Exception`: nothing on its way out may swallow it."""


class _Signals:
    """How many signals came. Counted, not raised, once the server runs: a raise could strike anywhere.

    They are counted twice: here when the main thread has the interpreter, and as they come by `_core.Signals`, which
    begins the drain and keeps its deadline.

    Args:
        drain_timeout: How long the first one leaves to requests, in seconds.
        reloads: Whether SIGHUP is one to catch.
    """

    def __init__(self, drain_timeout: float, *, reloads: bool) -> None:
        self._numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if reloads else [])]
        self._drain_timeout = drain_timeout
        self._had_terminal = _has_terminal()
        self._core: _core.Signals | None = None
        self._handled = 0
        self.reloads = 0
        self.interrupt = False

    @property
    def count(self) -> int:
        """How many came that mean the end."""
        return max(self._handled, self._core.count if self._core else 0)

    def heed(self, server: Server) -> None:
        """Has them stop a server that has started, whoever holds the interpreter then."""
        if self._core is not None and server._core is not None:
            self._core.heed(server._core)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        # A terminal that is closed sends SIGHUP too, and means the end.
        if number == signal.SIGHUP and not (self._had_terminal and not _has_terminal()):
            self.reloads += 1
            return
        self._handled += 1
        if number == signal.SIGHUP and self._core is not None:
            self._core.stop()
        if self.interrupt:
            raise _SignalledError

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catches them; in a thread other than the main one, none."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        from penstock import _core

        self._core = _core.Signals([signal.SIGINT, signal.SIGTERM], self._drain_timeout)
        wakes = signal.set_wakeup_fd(self._core.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, self.handle) for number in self._numbers}

        def give_back() -> None:
            for number, handler in before.items():
                # One that was not set from Python cannot be set by it.
                if handler is not None:
                    signal.signal(number, handler)
            with suppress(ValueError):
                signal.set_wakeup_fd(wakes)

        def let_go() -> None:
            # A signal to a child is not one to this process, whose socket it shares. Ctrl-C comes to all processes of a
            # terminal, and must not end what a handler computes with.
            give_back()
            signal.signal(signal.SIGINT, _do_nothing)

        _forks.in_child.add(let_go)
        _forks.watch()
        try:
            yield
        finally:
            _forks.in_child.discard(let_go)
            give_back()
            self._core.close()


def run(
    server: Server,
    models: list[Any],
    reloader: Reloader | None = None,
    greetings: _present.Greetings | None = None,
) -> list[str]:
    """Starts the server, prints what it serves, and blocks until it has stopped.

    The first SIGINT or SIGTERM drains, a second one stops at once. One that comes while models load
    ends the start. Where handlers hold the interpreter beyond that, the process ends without them: its exit status is
    0, or 3 if requests were cut off. With a reloader, SIGHUP loads the code anew.

    Args:
        server: What to run.
        models: What it was made with. Emptied, so that the code of what is replaced is not held here.
        reloader: Loads them anew.
        greetings: What is shown in place of the request to try, if it gives anything.

    Returns:
        The names of what was cut off; empty when all requests finished.
    """
    signals = _Signals(server.config.drain_timeout, reloads=reloader is not None)
    with signals.caught(), pid_file.held(server.config.pid_file):
        try:
            signals.interrupt = True
            server.start()
            signals.interrupt = False
            signals.heed(server)
        except _SignalledError:
            signals.interrupt = False
            return server.stop(0.0)
        if reloader is not None:
            reloader.start()
        say(_present.describe(server, models, greetings), sys.stdout)
        models.clear()
        try:
            while signals.count == 0:
                if server.wait(_LOOKS_EVERY):
                    return server.stop()
                if signals.reloads and reloader is not None:
                    signals.reloads = 0
                    reloader.ask()
        finally:
            if reloader is not None:
                reloader.stop()
        return _drain(server, signals)


def _drain(server: Server, signals: _Signals) -> list[str]:
    say(f"penstock: stopping: requests have {server.config.drain_timeout:g} s to finish; signal again to stop at once")
    stop = _Stop(server, None)
    while not stop.has_ended(_LOOKS_EVERY):
        if signals.count > 1:
            say("penstock: stopping at once")
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


def _do_nothing(*_: object) -> None:
    pass


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
