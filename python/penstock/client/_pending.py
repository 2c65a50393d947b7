"""`Pending`: the future of a call that runs on the process's runtime, for programs without an event loop.

One thread of the process takes the outcomes of all such calls and settles their futures. So that nothing
that a callback does can hold back other calls' outcomes, callbacks run on threads of their own.
"""

from __future__ import annotations

import functools
import logging
import os
import select
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client._result import Result

if TYPE_CHECKING:
    from penstock import _core
    from penstock.client._base import How
    from penstock.client._call import Call

__all__ = ["Pending", "begin"]

T = TypeVar("T")
_LOG = logging.getLogger("penstock.client")
_CALLBACK_THREADS = 32


class Pending(Future[T]):
    """What will become of `Client.submit`: a future of `concurrent.futures`.

    Cancelling it takes the request back, at any time before the answer is there. Callbacks may take as
    long as they like, and may wait for other futures: they run on threads of their own, or at once on
    the caller's if the future is done.

    A subclass may be given to `submit` as `into`. Its `set_result` is called with the `Result`, and its
    `set_exception` with the error, on the thread that does so for all calls of the process: what they do
    must be short.
    """

    def __init__(self) -> None:
        super().__init__()
        self._taken_back: Callable[[], None] | None = None

    def cancel(self) -> bool:
        """Gives the call up; False if its outcome is there already."""
        if not super().cancel():
            return False
        if self._taken_back is not None:
            self._taken_back()
        return True

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Calls `fn` with this future when it is done."""
        super().add_done_callback(functools.partial(_called_back, fn))


def begin(core: _core.RuntimeClient, call: Call, how: How, into: Pending[Any]) -> None:
    """Begins an inference, whose outcome goes into a future."""
    _delivery().begin(core, call, how, into)


class _Delivery:
    """The calls under way, and the thread that waits for their outcomes."""

    def __init__(self) -> None:
        from penstock import _core

        self.callbacks = ThreadPoolExecutor(_CALLBACK_THREADS, "penstock-callback")
        self._mailbox = _core.CompletionQueue()
        # Held while a call begins too: its outcome may be there before its future is written down.
        self._lock = threading.Lock()
        self._futures: dict[int, Pending[Any]] = {}
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread, once."""
        with self._lock:
            if self.thread is None:
                self.thread = threading.Thread(target=self._deliver, name="penstock-futures", daemon=True)
                self.thread.start()

    def begin(self, core: _core.RuntimeClient, call: Call, how: How, into: Pending[Any]) -> None:
        with self._lock:
            running = core.infer(call, how, self._mailbox, False)
            self._futures[running.ticket] = into
        into._taken_back = functools.partial(self._take_back, running)
        if into.cancelled():
            self._take_back(running)

    def _take_back(self, running: _core.PendingCall) -> None:
        with self._lock:
            self._futures.pop(running.ticket, None)
        running.cancel()

    def _deliver(self) -> None:
        poll = select.poll()
        poll.register(self._mailbox.fileno(), select.POLLIN)
        while True:
            poll.poll()
            for outcome in self._mailbox.take():
                self._settle(*outcome)
                # Not to be kept while there is nothing to do.
                del outcome

    def _settle(self, ticket: int, answer: Any, error: BaseException | None) -> None:
        with self._lock:
            future = self._futures.pop(ticket, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        try:
            if error is None:
                future.set_result(Result(answer))
            else:
                future.set_exception(error)
        except Exception as failed:
            _LOG.exception("the future of a call could not be settled")
            if not future.done():
                # Past what failed: somebody may wait for it.
                Future.set_exception(future, failed)


_BY_PROCESS: dict[int, _Delivery] = {}
"""This process's, and those of its parents, whose threads did not come along."""


def _delivery() -> _Delivery:
    current = _BY_PROCESS.get(os.getpid())
    if current is None:
        current = _BY_PROCESS.setdefault(os.getpid(), _Delivery())
        current.start()
    return current


def _called_back(fn: Callable[[Future[T]], object], future: Future[T]) -> None:
    current = _BY_PROCESS.get(os.getpid())
    if current is not None and threading.current_thread() is current.thread:
        current.callbacks.submit(_call, fn, future)
    else:
        fn(future)


def _call(fn: Callable[[Future[T]], object], future: Future[T]) -> None:
    try:
        fn(future)
    except Exception:
        _LOG.exception("a callback of a future failed")
