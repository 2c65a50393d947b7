"""Event loop of an instance with an async handler; it computes several calls at once."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock._core import BatchCall, CallQueue
    from penstock._spec.definition import Handler

__all__ = ["computes", "new_loop", "own_queue", "report_blocked", "run"]

computes: ContextVar[BatchCall | None] = ContextVar("computes", default=None)
"""The call that the current task computes. Tasks that it starts inherit it."""
own_queue: ContextVar[CallQueue | None] = ContextVar("own_queue", default=None)
"""The queue of the event loop's instance. Its handler has it while it is built, and later."""
_OWN = ("asyncio", "uvloop", "penstock")
"""Packages whose frames do not belong to the handler."""


def run(factory: Callable[[], Handler], queue: CallQueue) -> None:
    """Builds a handler on a new event loop, and computes the calls of the port until it is closed.

    The loop is from uvloop if that is installed.
    """
    loop = new_loop()
    try:
        loop.run_until_complete(_Instance(loop, queue).run(factory))
    finally:
        try:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop, from uvloop if that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class _Instance:
    """A handler, and the tasks that compute its calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: CallQueue) -> None:
        self._loop = loop
        self._queue = queue
        self._handler: Any = None
        self._active: dict[asyncio.Task[None], BatchCall] = {}
        self._cancelled: set[asyncio.Task[None]] = set()
        self._waiting: dict[BatchCall, asyncio.Future[None]] = {}
        self._closed = loop.create_future()

    async def run(self, factory: Callable[[], Handler]) -> None:
        self._queue.set_thread(threading.get_ident())
        own_queue.set(self._queue)
        try:
            handler = factory()
        except BaseException as raised:
            self._queue.load_failed(raised)
            return
        self._handler = handler.call
        # Chosen once, not for each request.
        self._compute = self._stream if self._queue.streams else self._answer
        self._loop.add_reader(self._queue.fileno(), self._read_events)
        self._queue.loaded(handler.close_sequence)
        try:
            await self._closed
            while self._active:
                await asyncio.wait(list(self._active))
        finally:
            self._loop.remove_reader(self._queue.fileno())
        self._queue.close_sequences()
        try:
            closing: Any = handler.close()
            if inspect.isawaitable(closing):
                await closing
        except Exception as raised:
            self._queue.log_exception(raised)

    def _read_events(self) -> None:
        """Handles events of the queue: new calls, callers that have left, readers that have made room."""
        events = self._queue.take()
        for call in events.calls:
            task = self._loop.create_task(self._compute(call))
            self._active[task] = call
            task.add_done_callback(self._done)
        if events.clients_changed:
            for task, call in list(self._active.items()):
                # Cancel once: cleaning up may take the handler several steps.
                if not call.has_clients and task not in self._cancelled:
                    self._cancelled.add(task)
                    task.cancel()
            for call, room in list(self._waiting.items()):
                if not room.done() and not call.is_full:
                    room.set_result(None)
        if events.closed and not self._closed.done():
            self._closed.set_result(None)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._active[task]
        self._cancelled.discard(task)

    async def _answer(self, call: BatchCall) -> None:
        _enter(call)
        try:
            returned = await self._handler(*call.arguments)
        except BaseException as raised:
            _fail(call, raised)
        else:
            call.respond(returned)

    async def _stream(self, call: BatchCall) -> None:
        chunks: Any = None
        _enter(call)
        try:
            chunks = self._handler(*call.arguments)
            if inspect.isawaitable(chunks):
                chunks = await chunks
            if isinstance(chunks, AsyncIterator):
                async for chunk in chunks:
                    if not call.send(chunk) and not await self._room(call):
                        break
            else:
                for chunk in chunks:
                    if not call.send(chunk) and not await self._room(call):
                        break
        except BaseException as raised:
            _fail(call, raised)
        try:
            await _close(chunks)
        except Exception as raised:
            # The callers have their responses already, so the log gets the error.
            self._queue.log_exception(raised)
        finally:
            call.end_stream()

    async def _room(self, call: BatchCall) -> bool:
        """Waits until every caller has read. Returns whether any of them wants more."""
        while call.is_full:
            room = self._waiting[call] = self._loop.create_future()
            try:
                await asyncio.wait_for(room, self._queue.read_timeout)
            except asyncio.TimeoutError:
                call.drop_slow_clients()
            finally:
                del self._waiting[call]
        return call.has_clients


def _enter(call: BatchCall) -> None:
    """Binds the current task to its call, and to the call's span. Each task has a separate context."""
    computes.set(call)
    if call.trace_context is not None:
        from penstock._runtime import tracing

        tracing.attach(*call.trace_context)


def _fail(call: BatchCall, raised: BaseException) -> None:
    if isinstance(raised, asyncio.CancelledError) and not call.has_clients:
        call.cancel()
    else:
        call.fail(raised)


async def _close(chunks: Any) -> None:
    """Closes a generator that has not run to its end."""
    if hasattr(chunks, "aclose"):
        await chunks.aclose()
    elif hasattr(chunks, "close"):
        chunks.close()


def report_blocked(model: str, thread: int, milliseconds: int) -> None:
    """Logs where a handler blocks its event loop.

    Args:
        model: The model's name.
        thread: The loop's thread.
        milliseconds: Duration of the block so far.
    """
    where = _handler_position(sys._current_frames().get(thread))
    if not where:
        # The loop is idle, and was only late: the machine is busy.
        return
    logging.getLogger(f"penstock.{model}").warning(
        "model '%s' blocks its event loop, for %d ms so far, so that its other calls wait: %s. "
        "Await it, move it to asyncio.to_thread(), or make the handler a plain def.",
        model,
        milliseconds,
        where,
    )


def _handler_position(frame: Any) -> str:
    if frame is None:
        return ""
    stack = traceback.extract_stack(frame)
    modules = [inner.f_globals.get("__name__", "").partition(".")[0] for inner, _ in traceback.walk_stack(frame)]
    own = [entry for entry, module in zip(stack, reversed(modules), strict=False) if module not in _OWN]
    if not own:
        return ""
    last = own[-1]
    return f"{last.filename}:{last.lineno} in {last.name}: {last.line}"
