"""`Signals`: drain and stop on signals, even while a handler holds the GIL.

Example:
    >>> with Server(double) as server, Signals([signal.SIGINT, signal.SIGTERM]).caught() as signals:
    ...     signals.set_target(server)
    ...     while not signals.count:
    ...         time.sleep(0.1)
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from penstock._attach import messages
from penstock._attach.attach import Attached
from penstock._runtime import forks
from penstock._runtime.console import echo

if TYPE_CHECKING:
    from typing_extensions import Self

    from penstock import _core
    from penstock._server.server import Server

__all__ = ["LoadSignals", "SignalledError", "Signals"]

_DETACH_TIMEOUT = 30.0


class Signals:
    """Counter of the signals that end a server. The program stops when the count rises.

    Signals are counted twice: here, when the main thread has the GIL, and at once by a thread without it, which
    begins the drain. If Python does not stop in time, that thread ends the process with the status 0, or 3 if
    requests were cut off.

    Args:
        numbers: The signals that end the server.
        also: Other signals that are caught and passed to `handle`.
        start_timeout: Seconds from the first signal until a start before `set_target` is aborted; None for no limit.
    """

    def __init__(self, numbers: Iterable[int], *, also: Iterable[int] = (), start_timeout: float | None = None) -> None:
        self._numbers, self._also = [*numbers], [*also]
        self._start_timeout = start_timeout
        self._core: _core.Signals | None = None
        self._handled = 0

    @property
    def count(self) -> int:
        """Number of signals so far."""
        return max(self._handled, self._core.count if self._core else 0)

    def set_target(self, served: Server | Attached | None, timeout: float | None = None) -> None:
        """Lets the first signal drain a server, and the second one end it, even while a handler holds the GIL.

        Args:
            served: A started server, or the result of `attach`; None for neither.
            timeout: Seconds that requests have to finish; default: the server's `drain_timeout`, or 30 for `attach`.
        """
        if self._core is None:
            return
        if served is None:
            self._core.clear_target()
        elif isinstance(served, Attached):
            withdraw = messages.pack({"do": "withdraw"})
            self._core.set_attached_target(
                served._connection, withdraw, _DETACH_TIMEOUT if timeout is None else timeout
            )
        elif served._core is not None:
            self._core.set_server_target(served._core, served.config.drain_timeout if timeout is None else timeout)
        else:
            # It has stopped already; the load is over.
            self._core.clear_target()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Counts a signal, on the main thread. A direct call has the effect of a signal."""
        del frame
        self._handled += 1
        if self._core is not None and number not in self._numbers:
            self._core.trigger()

    @contextmanager
    def caught(self) -> Iterator[Self]:
        """Catches the signals, and restores the old handlers at exit. Does nothing outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        from penstock import _core

        self._core = _core.Signals(self._numbers, self._start_timeout)
        wakes = signal.set_wakeup_fd(self._core.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, self.handle) for number in (*self._numbers, *self._also)}

        def restore() -> None:
            for number, handler in before.items():
                # None: a handler that was not set from Python, and cannot be restored.
                if handler is not None:
                    signal.signal(number, handler)
            with suppress(ValueError):
                signal.set_wakeup_fd(wakes)

        def restore_in_child() -> None:
            # A child shares the wake-up socket, but its signals are not signals to this process. Ctrl-C, which all
            # processes of a terminal get, must not end a child that a handler works with.
            restore()
            if signal.SIGINT in before:
                signal.signal(signal.SIGINT, _do_nothing)

        forks.in_child.add(restore_in_child)
        forks.watch()
        try:
            yield self
        finally:
            forks.in_child.discard(restore_in_child)
            restore()
            self._core.close()


class SignalledError(BaseException):
    """A signal came while models load. Not an `Exception`, which code of the user might swallow."""


class LoadSignals(Signals):
    """Signals that end a load: the first one raises `SignalledError` on the main thread while `interrupt` is set.

    A second one ends the process, even while compiled code does not return to Python.
    """

    interrupt = False
    message = "penstock: loading is stopped; signal again to end at once"
    """Printed before the exception is raised; empty for nothing."""

    def handle(self, number: int, frame: FrameType | None) -> None:
        super().handle(number, frame)
        if self.interrupt:
            if self.message:
                echo(self.message)
            raise SignalledError


def _do_nothing(*_: object) -> None:
    pass
