"""`Signals`: those that end what serves, heeded as they come, even while a handler holds the interpreter.

Example:
    >>> with Server(double) as server, Signals([signal.SIGINT, signal.SIGTERM]).caught() as signals:
    ...     signals.heed(server)
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

if TYPE_CHECKING:
    from typing_extensions import Self

    from penstock import _core
    from penstock._server.server import Server

__all__ = ["Signals"]

_DETACHED_WITHIN = 30.0


class Signals:
    """How many signals came that mean the end. What stops at them is for whoever asks for the count.

    They are counted twice: here when the main thread has the interpreter, and as they come by a thread without it,
    which begins the drain. Where Python does not come to the end of it in time, that thread ends the process: with
    status 0, or 3 if requests were cut off.

    Args:
        numbers: Which signals.
        also: More that are caught, and of which `handle` says what they mean.
        start_timeout: Seconds that the first one leaves to a start before `heed`; None for as long as it needs.
    """

    def __init__(self, numbers: Iterable[int], *, also: Iterable[int] = (), start_timeout: float | None = None) -> None:
        self._numbers, self._also = [*numbers], [*also]
        self._start_timeout = start_timeout
        self._core: _core.Signals | None = None
        self._handled = 0

    @property
    def count(self) -> int:
        """How many came."""
        return max(self._handled, self._core.count if self._core else 0)

    def heed(self, served: Server | Attached | None, timeout: float | None = None) -> None:
        """From now on the first one drains what serves, and a second one ends it, whoever holds the interpreter then.

        Args:
            served: A server that has started, or what `attach` gave; None for nothing any more.
            timeout: Seconds that requests have to finish; the server's `drain_timeout` by default, 30 of `attach`.
        """
        if self._core is None:
            return
        if served is None:
            self._core.clear_target()
        elif isinstance(served, Attached):
            withdraw = messages.pack({"do": "withdraw"})
            self._core.set_attached_target(
                served._connection, withdraw, _DETACHED_WITHIN if timeout is None else timeout
            )
        elif served._core is not None:
            self._core.set_server_target(served._core, served.config.drain_timeout if timeout is None else timeout)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Counts one, on the main thread. Called otherwise than by a signal, it does what a signal does."""
        del frame
        self._handled += 1
        if self._core is not None and number not in self._numbers:
            self._core.trigger()

    @contextmanager
    def caught(self) -> Iterator[Self]:
        """Catches them, and gives back what was there before; in a thread other than the main one, catches none."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        from penstock import _core

        self._core = _core.Signals(self._numbers, self._start_timeout)
        wakes = signal.set_wakeup_fd(self._core.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, self.handle) for number in (*self._numbers, *self._also)}

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
            if signal.SIGINT in before:
                signal.signal(signal.SIGINT, _do_nothing)

        forks.in_child.add(let_go)
        forks.watch()
        try:
            yield self
        finally:
            forks.in_child.discard(let_go)
            give_back()
            self._core.close()


def _do_nothing(*_: object) -> None:
    pass
