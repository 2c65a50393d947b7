"""`Pending`: the future of a call on the shared runtime, for programs without an event loop.

One thread of the process resolves the futures of all such calls. Callbacks run on other threads, so that they cannot
delay the outcomes of other calls.
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
    from penstock.client._options import Call, How

__all__ = ["Pending", "begin"]

T = TypeVar("T")
_LOG = logging.getLogger("penstock.client")
_CALLBACK_THREADS = 32


class Pending(Future[T]):
    """The future of `Client.submit`: a future of `concurrent.futures`.

    Cancelling it cancels the request, at any time before the response. Callbacks may block and wait for other futures:
    they run on separate threads, or at once on the caller's thread if the future is done.

    `submit` accepts an instance of a subclass as `into`. Its `set_result` is called with the `Result`, or its
    `set_exception` with the error, on the one thread for all calls of the process. They must return quickly.
    """

    def __init__(self) -> None:
        super().__init__()
        self._cancel_call: Callable[[], None] | None = None

    def cancel(self) -> bool:
        """Cancels the call. Returns False if it has ended already."""
        if not super().cancel():
            return False
        if self._cancel_call is not None:
            self._cancel_call()
        return True

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Calls `fn` with this future when it is done."""
        super().add_done_callback(functools.partial(_run_callback, fn))


def begin(core: _core.RuntimeClient, call: Call, how: How, into: Pending[Any]) -> None:
    """Begins an inference that resolves a future."""
    _delivery().begin(core, call, how, into)


class _Delivery:
    """Calls under way, and the thread that resolves their futures."""

    def __init__(self) -> None:
        from penstock import _core

        self.callbacks = ThreadPoolExecutor(_CALLBACK_THREADS, "penstock-callback")
        self._mailbox = _core.CompletionQueue()
        # Also held while a call begins: its outcome may arrive before its future is registered.
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
        into._cancel_call = functools.partial(self._cancel, running)
        if into.cancelled():
            self._cancel(running)

    def _cancel(self, running: _core.PendingCall) -> None:
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
                # Releases the outcome before the thread waits again.
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
            _LOG.exception("the future of a call could not be resolved")
            if not future.done():
                # Bypasses the method that failed, since a thread may wait for the future.
                Future.set_exception(future, failed)


_BY_PROCESS: dict[int, _Delivery] = {}
"""The instance of this process, and those of its parents, whose threads do not exist here."""


def _delivery() -> _Delivery:
    current = _BY_PROCESS.get(os.getpid())
    if current is None:
        current = _BY_PROCESS.setdefault(os.getpid(), _Delivery())
        current.start()
    return current


def _run_callback(fn: Callable[[Future[T]], object], future: Future[T]) -> None:
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
