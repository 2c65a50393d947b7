"""Answers in pieces: what an app calls to send them, and how they reach the caller."""

from __future__ import annotations

import ctypes
import inspect
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeAlias, TypeVar

from penstock import Cancelled, HandlerError, Timeout

__all__ = ["AppThread", "StreamHandler", "pieces_of"]

T = TypeVar("T")

_END = object()
_WAITING = 64
"""Pieces that wait for a caller who reads slowly; the app waits with the next one."""


class Interrupted(BaseException):
    """What the app does takes too long. Not an Exception, so that an app does not take it for one of its own."""


class StreamHandler:
    """What `infer` gets as `stream_output_handler`."""

    def __init__(self) -> None:
        self._pieces: queue.Queue[Any] = queue.Queue(_WAITING)
        self._gone = threading.Event()
        self._over = False

    def send_streamed_output(self, output: Any) -> None:
        """Sends one piece: a dict of outputs by name.

        Raises:
            Cancelled: the caller has left, so there is nobody to send it to.
        """
        if self._over:
            raise HandlerError("send_streamed_output was called after finalise_streamed_output")
        self._put(output)

    def finalise_streamed_output(self) -> None:
        """Says that there are no more pieces. Without it, they end when `infer` does."""
        if not self._over:
            self._over = True
            self._put(_END)

    finalize_streamed_output = finalise_streamed_output

    def _put(self, piece: Any) -> None:
        while True:
            if self._gone.is_set():
                raise Cancelled("the caller left")
            try:
                return self._pieces.put(piece, timeout=0.1)
            except queue.Full:
                continue

    def _fail(self, error: BaseException) -> None:
        """Ends the pieces by an error."""
        if not self._over:
            self._over = True
            self._put(error)

    def _leave(self) -> None:
        """The caller is gone: whoever sends is told."""
        self._gone.set()


Done: TypeAlias = "queue.SimpleQueue[tuple[Any, BaseException | None]]"
"""Where a task's value, or its error, is put."""


class AppThread:
    """The one thread on which a streaming app lives: what loaded it also computes."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Callable[[], Any], Done] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._now: Done | None = None
        self._thread = threading.Thread(target=self._run, name="inferless-app", daemon=True)
        self._thread.start()

    def begin(self, task: Callable[[], Any]) -> Done:
        """Has it do something. What it gives or raises is put into the queue, as `(value, error)`."""
        done: Done = queue.SimpleQueue()
        self._tasks.put((task, done))
        return done

    def do(self, task: Callable[[], T]) -> T:
        """Has it do something, and waits. Gives or raises what that does."""
        value: T = _given(self.begin(task).get())
        return value

    def within(self, task: Callable[[], T], seconds: float) -> T:
        """Has it do something, and waits for so long; 0 is any time. What takes longer is interrupted.

        Raises:
            Timeout: it took too long.
        """
        done = self.begin(task)
        try:
            value: T = _given(done.get(timeout=seconds or None))
            return value
        except queue.Empty:
            self.interrupt(done)
        except Interrupted:
            pass
        raise Timeout(f"infer did not answer within {seconds:g}s")

    def interrupt(self, done: Done) -> None:
        """Raises in what `begin` gave that queue for, as soon as it is in Python code, unless that is over."""
        with self._lock:
            if self._now is done and self._thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread.ident), ctypes.py_object(Interrupted)
                )

    def close(self) -> None:
        """Ends it after what it does now."""
        self._tasks.put(None)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task[1].put(self._done(*task))

    def _done(self, task: Callable[[], Any], done: Done) -> tuple[Any, BaseException | None]:
        try:
            with self._lock:
                self._now = done
            try:
                return task(), None
            finally:
                with self._lock:
                    self._now = None
                # An interrupt that came last is raised here, and not in what comes next.
                _nothing()
        except BaseException as error:
            return None, error


def _given(answer: tuple[Any, BaseException | None]) -> Any:
    value, error = answer
    if error is not None:
        raise error
    return value


def pieces_of(app: Any, thread: AppThread, inputs: Any, seconds: float) -> Iterator[Any]:
    """The pieces of a streaming app's answer, as they come.

    Args:
        app: An `App` that lives on `thread`.
        thread: That thread.
        inputs: What `infer` gets.
        seconds: How long to wait for each piece; 0 for any time.

    Raises:
        Timeout: a piece took too long.
        Exception: whatever `infer` raises.
    """
    handler = StreamHandler()

    def run() -> None:
        try:
            _drive(app, handler, inputs)
            handler.finalise_streamed_output()
        except Cancelled:
            if not handler._gone.is_set():
                raise
        except BaseException as error:
            handler._fail(error)

    # The app may still be at work for a caller who left. If that never ends, the process is killed for it.
    thread.do(_nothing)
    done = thread.begin(run)
    try:
        while True:
            try:
                piece = handler._pieces.get(timeout=seconds or None)
            except queue.Empty:
                thread.interrupt(done)
                raise Timeout(f"infer sent nothing within {seconds:g}s") from None
            if piece is _END:
                return
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        handler._leave()


def _nothing() -> None:
    pass


def _drive(app: Any, handler: StreamHandler, inputs: Any) -> None:
    result = app.infer(inputs, handler)
    if inspect.isasyncgen(result):
        app.loop().run_until_complete(_send_all(result, handler))
        return
    if inspect.isgenerator(result):
        for piece in result:
            handler.send_streamed_output(piece)
        return
    told = app.wait(result)
    if told is not None and not handler._over:
        # It answers at once after all.
        handler.send_streamed_output(told)


async def _send_all(pieces: AsyncIterator[Any], handler: StreamHandler) -> None:
    async for piece in pieces:
        handler.send_streamed_output(piece)
