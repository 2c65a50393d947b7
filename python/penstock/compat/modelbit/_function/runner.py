"""Runs a function for requests: each row is a call."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any

from penstock.compat.modelbit._function import capture
from penstock.compat.modelbit._function.arity import Takes
from penstock.compat.modelbit._function.json_codec import dumps, plain
from penstock.compat.modelbit._request import Calls, body_of, calls_of
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Answer", "Asking", "Runner", "refused"]

_AT_ONCE = 64
"""Rows of one request that an async function computes at the same time."""


@dataclass(slots=True)
class Answer:
    """What a request is answered."""

    body: bytes
    status: int = 200
    record: bytes = b""
    """The rows as the request log has them, as JSON; empty if it is not kept."""


@dataclass(slots=True)
class Asking:
    """One request on its way."""

    calls: Calls
    told: Mapping[str, Any]
    """What the integration says of it: `single`, `log`, and of which part of how many parts it is."""
    per_row: bool
    """Whether rows may fail by themselves."""


class Runner:
    """Runs a function for requests, each row by itself.

    Args:
        deployment: What is known of it.
        function: The function.
    """

    def __init__(self, deployment: Deployment, function: Callable[..., Any]) -> None:
        self.deployment, self._function = deployment, function
        self.waits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        self._takes = Takes(function)
        self._loops = _Loops()

    @property
    def is_async(self) -> bool:
        """Whether `answer_later` is there."""
        return self.waits

    def answer(self, bodies: Sequence[bytes], told: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """Answers requests."""
        return [self._answer(body, one) for body, one in zip(bodies, told, strict=True)]

    async def answer_later(self, body: bytes, told: Mapping[str, Any]) -> Answer:
        """Answers a request to an async function, on the event loop that runs."""
        try:
            request, lengths = self._asked(body, told)
            records = await self._wait(request, lengths)
            return self._given(request, records)
        except BadCall as error:
            return refused(error)

    def _answer(self, body: bytes, told: Mapping[str, Any]) -> Answer:
        if self.waits:
            answer: Answer = self.wait(self.answer_later(body, told))
            return answer
        try:
            request, lengths = self._asked(body, told)
            records = None
            if told.get("log"):
                records = [self._one(request, place) for place in range(len(request.calls.rows))]
            else:
                self._each(request, lengths)
            return self._given(request, records)
        except BadCall as error:
            return refused(error)

    def wait(self, waiting: Any) -> Any:
        """Runs something async to its end, on an event loop of this thread's."""
        return self._loops.here().run_until_complete(waiting)

    def _asked(self, body: bytes, told: Mapping[str, Any]) -> tuple[Asking, Collection[int]]:
        request = self.read(body, told)
        return request, self._takes.check(request.calls)

    @staticmethod
    def read(body: bytes, told: Mapping[str, Any]) -> Asking:
        """What a request says.

        Raises:
            BadCall: it cannot be understood.
        """
        parsed = body_of(body)
        calls = calls_of(parsed["data"], single=bool(told.get("single")))
        if (parts := int(told.get("parts", 0))) and calls.batch:
            first, last = (int(told["part"]) + more for more in (0, 1))
            part = slice(first * len(calls.rows) // parts, last * len(calls.rows) // parts)
            calls = Calls(calls.rows[part])
        return Asking(calls, told, parsed.get("per_row_errors") is True)

    def _each(self, request: Asking, lengths: Collection[int]) -> None:
        """Calls the function for each row, and puts what it gives in the place of the row's arguments."""
        function, rows = self._function, request.calls.rows
        left = iter(rows)
        while True:
            try:
                if lengths == {2}:
                    for row in left:
                        row[1] = function(row[1])
                else:
                    for row in left:
                        row[1:] = (function(*row[1:]),)
                return
            except (Exception, SystemExit) as error:
                place = len(rows) - length_hint(left) - 1
                rows[place][1:] = [self._failed(error, request, place)]

    def _one(self, request: Asking, place: int) -> dict[str, Any]:
        """As `_each`, for one row, with what the request log says of it."""
        row = request.calls.rows[place]
        arguments = row[1:]
        with capture.capturing() as captured:
            try:
                result = self._function(*arguments)
            except (Exception, SystemExit) as error:
                result = self._failed(error, request, place)
        row[1:] = [result]
        return record(row[0], arguments, result, captured)

    async def _wait(self, request: Asking, lengths: Collection[int]) -> list[dict[str, Any]] | None:
        rows, wanted = request.calls.rows, bool(request.told.get("log"))
        if len(rows) == 1 and not wanted:
            await self._later(request, 0)
            return None
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(place: int) -> dict[str, Any]:
            async with slots:
                if not wanted:
                    await self._later(request, place)
                    return {}
                arguments = rows[place][1:]
                with capture.capturing() as captured:
                    await self._later(request, place)
                return record(rows[place][0], arguments, rows[place][1], captured)

        tasks = [asyncio.ensure_future(one(place)) for place in range(len(rows))]
        try:
            records = [*await asyncio.gather(*tasks)]
        finally:
            for task in tasks:
                task.cancel()
        return records if wanted else None

    async def _later(self, request: Asking, place: int) -> None:
        row = request.calls.rows[place]
        try:
            row[1:] = [await self._function(*row[1:])]
        except (Exception, SystemExit) as error:
            row[1:] = [self._failed(error, request, place)]

    def _failed(self, error: BaseException, request: Asking, place: int) -> dict[str, str]:
        """What a row has that failed; the end of the request, unless each row may fail by itself."""
        text = self.said(error)
        if request.per_row and request.calls.batch:
            return {"error": text}
        raise BadCall(_on_last_line(text, request.calls.where(place))) from error

    def said(self, error: BaseException) -> str:
        """What callers are told of an exception; the log has all of it."""
        trace = "".join(traceback.format_exception(type(error), error, _users(error)))
        print(trace, file=sys.stderr, end="", flush=True)
        last = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        return f"{trace.rstrip()}\n{last}" if self.deployment.tracebacks else last

    def _given(self, request: Asking, records: list[dict[str, Any]] | None) -> Answer:
        """The answer of a request whose rows have their results."""
        nan, calls = self.deployment.nan, request.calls
        kept = dumps(records) if records else b""
        try:
            text = dumps(calls.rows if calls.batch else calls.rows[0][1], nan=nan)
        except (TypeError, ValueError) as error:
            # One by one, to name the row.
            for place, row in enumerate(calls.rows):
                try:
                    dumps(row[1], nan=nan)
                except (TypeError, ValueError) as its:
                    raise BadCall(f"{calls.where(place)}{type(its).__name__}: {its}") from None
            raise BadCall(f"{type(error).__name__}: {error}") from None
        if request.told.get("parts"):
            return Answer(text[1:-1], record=kept)
        return Answer(b'{"data":%b}' % text, record=kept)


class _Loop:
    """An event loop that is closed when its thread ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def __del__(self) -> None:
        self.loop.close()


class _Loops(threading.local):
    """An event loop for each thread that wants one."""

    def __init__(self) -> None:
        self._loop: _Loop | None = None

    def here(self) -> asyncio.AbstractEventLoop:
        """This thread's."""
        if self._loop is None:
            self._loop = _Loop()
        return self._loop.loop


def refused(error: BadCall) -> Answer:
    """The answer to a request that cannot be computed."""
    return Answer(json.dumps({"error": str(error)}).encode(), error.status)


def record(id_: Any, arguments: Sequence[Any], result: Any, captured: capture.Captured) -> dict[str, Any]:
    """What the request log says of a row."""
    try:
        output = plain(result)
    except (TypeError, ValueError):
        output = None
    said = {"id": id_, "inputs": arguments, "output": output, "stdout": captured.text.getvalue()}
    return {**said, "images": captured.images} if captured.images else said


def _on_last_line(text: str, where: str) -> str:
    """Clients show the last line alone: it names the row."""
    *before, last = text.split("\n")
    return "\n".join([*before, where + last])


def _users(error: BaseException) -> Any:
    """The traceback from the user's code on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace
