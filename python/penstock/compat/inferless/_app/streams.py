"""Streaming responses: the app's thread, and the chunks that it sends."""

from __future__ import annotations

import ctypes
import inspect
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeAlias, TypeVar

from penstock import Cancelled, HandlerError, Timeout
from penstock.compat.inferless._app.app import App

__all__ = ["AppThread", "StreamOutputHandler", "stream_chunks"]

T = TypeVar("T")

_END = object()
_CAPACITY = 64
"""Chunks buffered for a client that reads slowly; the app blocks on the next one."""


class Interrupted(BaseException):
    """Raised in a call that exceeded its time limit. Not an `Exception`, so that the app does not handle it."""


class StreamOutputHandler:
    """The `stream_output_handler` that `infer` gets."""

    def __init__(self) -> None:
        self._chunks: queue.Queue[Any] = queue.Queue(_CAPACITY)
        self._abandoned = threading.Event()
        self._finished = False

    def send_streamed_output(self, output: Any) -> None:
        """Sends one chunk: a dict of outputs by name.

        Raises:
            Cancelled: the client disconnected.
        """
        if self._finished:
            raise HandlerError("send_streamed_output was called after finalise_streamed_output")
        self._put(output)

    def finalise_streamed_output(self) -> None:
        """Ends the stream; without a call it ends when `infer` returns."""
        if not self._finished:
            self._finished = True
            self._put(_END)

    finalize_streamed_output = finalise_streamed_output

    @property
    def is_finished(self) -> bool:
        """True if the app has ended the stream."""
        return self._finished

    @property
    def is_abandoned(self) -> bool:
        """True if the client disconnected."""
        return self._abandoned.is_set()

    def receive(self, timeout: float | None) -> Any:
        """Returns the next chunk, an exception, or `_END`.

        Raises:
            queue.Empty: nothing was sent in time.
        """
        return self._chunks.get(timeout=timeout)

    def fail(self, error: BaseException) -> None:
        """Ends the stream by an exception."""
        if not self._finished:
            self._finished = True
            self._put(error)

    def abandon(self) -> None:
        """Makes the app's next chunk raise `Cancelled`."""
        self._abandoned.set()

    def _put(self, chunk: Any) -> None:
        while True:
            if self._abandoned.is_set():
                raise Cancelled("the caller left")
            try:
                return self._chunks.put(chunk, timeout=0.1)
            except queue.Full:
                continue


TaskResult: TypeAlias = "queue.SimpleQueue[tuple[Any, BaseException | None]]"
"""Receives a task's `(value, exception)`."""


class AppThread:
    """The one thread that loads and calls a streaming app: some libraries require one thread for both."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Callable[[], Any], TaskResult] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._current: TaskResult | None = None
        self._thread = threading.Thread(target=self._run_tasks, name="inferless-app", daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], Any]) -> TaskResult:
        """Queues a task. Returns the queue of its result."""
        result: TaskResult = queue.SimpleQueue()
        self._tasks.put((task, result))
        return result

    def run(self, task: Callable[[], T]) -> T:
        """Runs a task and returns or raises its result."""
        value: T = _unwrap(self.submit(task).get())
        return value

    def run_within(self, task: Callable[[], T], seconds: float) -> T:
        """Runs a task within a time limit in seconds, 0 for none; interrupts it afterwards.

        Raises:
            Timeout: the limit was exceeded.
        """
        result = self.submit(task)
        try:
            value: T = _unwrap(result.get(timeout=seconds or None))
            return value
        except queue.Empty:
            self.interrupt(result)
        except Interrupted:
            pass
        raise Timeout(f"infer did not answer within {seconds:g}s")

    def interrupt(self, result: TaskResult) -> None:
        """Raises `Interrupted` in the task of a result, once it executes Python code; no effect after its end."""
        with self._lock:
            if self._current is result and self._thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread.ident), ctypes.py_object(Interrupted)
                )

    def close(self) -> None:
        """Ends the thread after its queued tasks."""
        self._tasks.put(None)

    def _run_tasks(self) -> None:
        while (task := self._tasks.get()) is not None:
            task[1].put(self._execute(*task))

    def _execute(self, task: Callable[[], Any], result: TaskResult) -> tuple[Any, BaseException | None]:
        try:
            with self._lock:
                self._current = result
            try:
                return task(), None
            finally:
                with self._lock:
                    self._current = None
                # A pending interrupt is raised in this call, not in the next task.
                _nothing()
        except BaseException as error:
            return None, error


def _unwrap(result: tuple[Any, BaseException | None]) -> Any:
    value, error = result
    if error is not None:
        raise error
    return value


def stream_chunks(app: App, thread: AppThread, inputs: Any, seconds: float) -> Iterator[Any]:
    """Yields the chunks of a streaming app's response as they are sent.

    Args:
        app: An app loaded on `thread`.
        thread: The app's thread.
        inputs: The argument of `infer`.
        seconds: Time limit of each chunk; 0 for none.

    Raises:
        Timeout: a chunk exceeded the limit.
        Exception: `infer` raised it.
    """
    handler = StreamOutputHandler()

    def run() -> None:
        try:
            _send_output(app, handler, inputs)
            handler.finalise_streamed_output()
        except Cancelled:
            if not handler.is_abandoned:
                raise
        except BaseException as error:
            handler.fail(error)

    # Waits for a call whose client disconnected. If that never ends, the process is killed.
    thread.run(_nothing)
    result = thread.submit(run)
    try:
        while True:
            try:
                chunk = handler.receive(seconds or None)
            except queue.Empty:
                thread.interrupt(result)
                raise Timeout(f"infer sent nothing within {seconds:g}s") from None
            if chunk is _END:
                return
            if isinstance(chunk, BaseException):
                raise chunk
            yield chunk
    finally:
        handler.abandon()


def _nothing() -> None:
    pass


def _send_output(app: App, handler: StreamOutputHandler, inputs: Any) -> None:
    """Calls `infer` and sends its chunks: those of a generator, or the returned value."""
    result = app.infer(inputs, handler)
    if inspect.isasyncgen(result):
        app.loop().run_until_complete(_send_all(result, handler))
        return
    if inspect.isgenerator(result):
        for chunk in result:
            handler.send_streamed_output(chunk)
        return
    value = app.resolve(result)
    if value is not None and not handler.is_finished:
        # The app returned one output instead of streaming.
        handler.send_streamed_output(value)


async def _send_all(chunks: AsyncIterator[Any], handler: StreamOutputHandler) -> None:
    async for chunk in chunks:
        handler.send_streamed_output(chunk)
