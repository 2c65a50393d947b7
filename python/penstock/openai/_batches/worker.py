"""The task that computes batches, one for all processes that use a store."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.openai._batches import files, jobs
from penstock.openai._batches.capacity import Capacity
from penstock.openai._batches.jobs import Job, Line
from penstock.openai._batches.line_call import AGAIN, LineCall
from penstock.openai._batches.lines import check_lines
from penstock.openai._batches.store import Store
from penstock.openai._table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from sqlite3 import Connection

    from penstock._core import CallQueue
    from penstock.errors import PenstockError

__all__ = ["Worker"]

POLL_INTERVAL = 1.0
"""Seconds after which the store is read again, for batches of other processes and for expired ones."""
CLEAN_INTERVAL = 60.0
"""Seconds between deletions of what has expired."""
LOCK_INTERVAL = 0.25
"""Seconds between attempts to become the worker of a store."""
PAGE = 64
"""Lines that are read at once."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
"""Bounds of the pause after which a line is computed again, in seconds."""

UNFINISHED = {
    "cancelled": {"code": "batch_cancelled", "message": "The batch was cancelled before this request was computed."},
    "expired": {
        "code": "batch_expired",
        "message": "This request could not be computed before the completion window expired.",
    },
    "completed": {"code": "batch_incomplete", "message": "This request was not computed."},
}
"""The member `error` of lines without a result, by the last status of their batch."""

_log = logging.getLogger("penstock.openai")


class Worker:
    """Computes the batches of a store while it holds the lock beside it.

    Args:
        store: The store.
        path: Its file.
        table: The endpoints.
        queue: The queue of the routes' own instance.
        most_lines: Limit of lines in an input.
        keep: Seconds after which ended batches are deleted.
    """

    def __init__(self, store: Store, path: Path, table: Table, queue: CallQueue, *, most_lines: int, keep: int) -> None:
        self._store, self._table, self._most_lines, self._keep = store, table, most_lines, keep
        self._lock = path.with_name(path.name + ".lock")
        models = {one.model.name: one.model for named in table.by_path.values() for one, _ in named.values()}
        self._capacities = {name: Capacity(model, queue) for name, model in models.items()}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The last status of a batch that ends before its lines do.
        self._stops: dict[str, asyncio.Future[str]] = {}
        self._changed = asyncio.Event()
        self._main = asyncio.get_running_loop().create_task(self._run())

    def notice(self) -> None:
        """Reads the store again: there is a new batch, or one to cancel."""
        self._changed.set()

    async def close(self) -> None:
        """Ends. Lines that are computed now are computed again by the next worker."""
        await _end([self._main, *self._tasks.values()])

    async def _run(self) -> None:
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not _locked(handle):
                await asyncio.sleep(LOCK_INTERVAL)
            cleaned = 0.0
            while True:
                try:
                    if time.monotonic() - cleaned > CLEAN_INTERVAL:
                        await self._store.run(self._clean)
                        cleaned = time.monotonic()
                    await self._look()
                except Exception as raised:
                    _log.error("openai.Batches: the store could not be read", exc_info=raised)
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), POLL_INTERVAL)
                self._changed.clear()
        finally:
            # Before the lock is free, as the next worker computes these batches.
            await _end(self._tasks.values())
            os.close(handle)

    def _clean(self, connection: Connection) -> None:
        files.expire_files(connection)
        jobs.delete_old_batches(connection, self._keep)

    async def _look(self) -> None:
        for job in await self._store.run(jobs.open_batches):
            if job.id not in self._tasks:
                self._stops[job.id] = asyncio.get_running_loop().create_future()
                task = self._tasks[job.id] = asyncio.get_running_loop().create_task(self._work(job))
                task.add_done_callback(functools.partial(self._ended, job.id))
            stop = self._stops[job.id]
            if not stop.done() and (job.status == "cancelling" or job.expires_at <= time.time()):
                stop.set_result("cancelled" if job.status == "cancelling" else "expired")

    def _ended(self, identity: str, _: asyncio.Task[None]) -> None:
        del self._tasks[identity], self._stops[identity]
        self._changed.set()

    async def _work(self, job: Job) -> None:
        """Continues a batch until it has ended."""
        try:
            if job.status == "validating" and not await self._validate(job):
                return
            last = "completed" if job.status == "finalizing" else await self._computed(job)
            await self._store.run(lambda connection: jobs.end_batch(connection, job.id, last, UNFINISHED[last]))
        except Exception as raised:
            _log.error("openai.Batches: batch %s could not be continued", job.id, exc_info=raised)
            await asyncio.sleep(LONGEST_PAUSE)

    async def _validate(self, job: Job) -> bool:
        """Reads the lines of a batch. Returns false if it failed."""

        def validate(connection: Connection) -> bool:
            if files.file_of(connection, job.owner, job.input_file_id) is None:
                message = f"The input file {job.input_file_id} does not exist any more"
                error = {"code": "file_not_found", "message": message, "param": "input_file_id", "line": None}
                jobs.fail_batch(connection, job.id, [error])
                return False
            lines, errors = check_lines(_chunks(connection, job.input_file_id), job.endpoint, self._most_lines)
            if errors:
                jobs.fail_batch(connection, job.id, errors)
                return False
            jobs.add_lines(connection, job.id, lines)
            return True

        return await self._store.run(validate)

    async def _computed(self, job: Job) -> str:
        """Computes the lines of a batch. Returns its last status."""
        lines, stop = asyncio.ensure_future(self._compute_lines(job)), self._stops[job.id]
        first: list[asyncio.Future[Any]] = [lines, stop]
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not lines.done():
                return stop.result()
            await lines
        finally:
            await _end([lines])
        if await self._store.run(
            lambda connection: jobs.change_status(connection, job.id, "finalizing", ["in_progress"])
        ):
            return "completed"
        return "cancelled"

    async def _compute_lines(self, job: Job) -> None:
        running: set[asyncio.Task[None]] = set()
        try:
            last = 0
            while page := await self._store.run(
                functools.partial(jobs.waiting_lines, identity=job.id, after=last, most=PAGE)
            ):
                for line in page:
                    last = line.n
                    call = LineCall(job, line, self._table, self._capacities)
                    if call.refused is not None:
                        await self._record(job, line, *call.refused)
                        continue
                    await call.capacity.enter(call.peer)
                    task = asyncio.ensure_future(self._compute(job, line, call))
                    running.add(task)
                    task.add_done_callback(functools.partial(_leave, call.capacity))
                for task in [one for one in running if one.done()]:
                    running.discard(task)
                    await task
            await asyncio.gather(*running)
        finally:
            await _end(running)

    async def _compute(self, job: Job, line: Line, call: LineCall) -> None:
        """Computes a line, again while its model has no room."""
        pause = SHORTEST_PAUSE
        while True:
            try:
                succeeded, result = await call.run()
            except AGAIN as error:
                await asyncio.sleep(max(pause, _retry_after(error)))
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return await self._record(job, line, succeeded, result)

    async def _record(self, job: Job, line: Line, succeeded: bool, result: bytes) -> None:
        await self._store.run(
            lambda connection: jobs.record_result(connection, job.id, line, result, succeeded=succeeded)
        )


def _leave(capacity: Capacity, _: asyncio.Task[None]) -> None:
    capacity.leave()


def _retry_after(error: PenstockError) -> float:
    return min(error.retry_after or 0.0, LONGEST_PAUSE)


def _chunks(connection: Connection, identity: str) -> Iterator[bytes]:
    index = 0
    while (chunk := files.chunk_of(connection, identity, index)) is not None:
        yield chunk
        index += 1


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _end(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels tasks and waits for them."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
