"""Runs a function for requests, in the function's process."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.compat.modelbit import _captured
from penstock.compat.modelbit._arguments import Calls, body_of, calls_of
from penstock.compat.modelbit._deployment import Deployment
from penstock.compat.modelbit._encoding import dumps, plain
from penstock.compat.modelbit._frames import frame_of, row_of, values_of
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Answer", "Runner"]

_AT_ONCE = 64
"""Rows of one request that an async function computes at the same time."""


@dataclass
class Answer:
    """What a request is answered."""

    body: bytes
    status: int = 200
    record: bytes = b""
    """The rows as the request log has them, as JSON; empty if it is not kept."""


@dataclass
class _Request:
    """One request on its way."""

    calls: Calls
    told: Mapping[str, Any]
    per_row: bool


class _Failed:
    """In the place of a result: why there is none."""

    def __init__(self, text: str) -> None:
        self.text = text


class Runner:
    """Runs a function for requests.

    Args:
        deployment: What is known of it.
        function: The function.
    """

    def __init__(self, deployment: Deployment, function: Callable[..., Any]) -> None:
        self._deployment, self._function = deployment, function
        waits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        self._loop = asyncio.new_event_loop() if waits else None
        self._takes = _Takes(function)
        _captured.install()

    def answer(self, bodies: Sequence[bytes], told: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """Answers requests: each by itself, or the rows of all in one frame."""
        if self._deployment.columns is not None:
            return self._frames(bodies, told)
        return [self._caught(body, one) for body, one in zip(bodies, told, strict=True)]

    def _caught(self, body: bytes, told: Mapping[str, Any]) -> Answer:
        try:
            request = _read(body, told)
            results, records = self._rows(request)
            return self._given(request, results, records)
        except BadCall as error:
            return _refused(error)

    def _rows(self, request: _Request) -> tuple[list[Any], list[dict[str, Any]]]:
        calls, wanted = request.calls, bool(request.told.get("log"))
        for place, arguments in enumerate(calls.arguments):
            self._takes.check(arguments, calls.where(place))
        if self._loop is not None:
            done = self._loop.run_until_complete(self._wait(request, wanted))
        else:
            done = [self._one(request, place, wanted) for place in range(len(calls.arguments))]
        return [result for result, _ in done], [record for _, record in done if record]

    async def _wait(self, request: _Request, wanted: bool) -> list[tuple[Any, dict[str, Any]]]:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(place: int) -> tuple[Any, dict[str, Any]]:
            async with slots:
                with _captured.capturing(wanted) as captured:
                    try:
                        result = await self._function(*request.calls.arguments[place])
                    except (Exception, SystemExit) as error:
                        result = self._failed(error, request, place)
                return result, _record(request, place, result, captured) if wanted else {}

        tasks = [asyncio.ensure_future(one(place)) for place in range(len(request.calls.arguments))]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    def _one(self, request: _Request, place: int, wanted: bool) -> tuple[Any, dict[str, Any]]:
        with _captured.capturing(wanted) as captured:
            try:
                result = self._function(*request.calls.arguments[place])
            except (Exception, SystemExit) as error:
                result = self._failed(error, request, place)
        return result, _record(request, place, result, captured) if wanted else {}

    def _failed(self, error: BaseException, request: _Request, place: int) -> _Failed:
        """A row's failure; the end of the request, unless each row may fail by itself."""
        text = self._said(error)
        if request.per_row and request.calls.ids is not None:
            return _Failed(text)
        raise BadCall(_on_last_line(text, request.calls.where(place))) from error

    def _said(self, error: BaseException) -> str:
        """What callers are told of an exception; the log has all of it."""
        trace = "".join(traceback.format_exception(type(error), error, _users(error)))
        print(trace, file=sys.stderr, end="", flush=True)
        last = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        return f"{trace.rstrip()}\n{last}" if self._deployment.tracebacks else last

    def _frames(self, bodies: Sequence[bytes], told: Sequence[Mapping[str, Any]]) -> list[Answer]:
        columns = self._deployment.columns or ()
        answers: list[Answer | None] = [None] * len(bodies)
        requests: dict[int, tuple[_Request, list[dict[str, Any]]]] = {}
        for place, body in enumerate(bodies):
            try:
                request = _read(body, told[place])
                rows = [
                    row_of(arguments, columns, request.calls.where(at), extra=self._deployment.extra)
                    for at, arguments in enumerate(request.calls.arguments)
                ]
                requests[place] = request, rows
            except BadCall as error:
                answers[place] = _refused(error)
        for places in self._groups(requests):
            for place, answer in zip(places, self._framed([requests[one] for one in places]), strict=True):
                answers[place] = answer
        return [answer for answer in answers if answer is not None]

    def _groups(self, requests: Mapping[int, tuple[_Request, list[dict[str, Any]]]]) -> list[list[int]]:
        """Requests whose rows share a frame."""
        return [[*requests]] if requests else []

    def _framed(self, requests: Sequence[tuple[_Request, list[dict[str, Any]]]]) -> list[Answer]:
        """Answers requests by one frame; one by one if that fails, so that nobody pays for another's mistake."""
        rows = [row for _, some in requests for row in some]
        ids = [one for request, some in requests for one in request.calls.ids or range(len(some))]
        wanted = any(request.told.get("log") for request, _ in requests)
        try:
            with _captured.capturing(wanted) as captured:
                values = self._on_frame(rows, ids) if rows else []
        except BadCall as error:
            if len(requests) > 1:
                return [self._framed([one])[0] for one in requests]
            return [_refused(error)]
        answers, at = [], 0
        for request, some in requests:
            part, at = values[at : at + len(some)], at + len(some)
            records = [_record(request, place, value, captured) for place, value in enumerate(part)] if wanted else []
            try:
                answers.append(self._given(request, part, records))
            except BadCall as error:
                answers.append(_refused(error))
        return answers

    def _on_frame(self, rows: list[dict[str, Any]], ids: list[Any]) -> list[Any]:
        frame = frame_of(rows, self._deployment.columns or (), ids)
        try:
            result = self._function(frame)
            if self._loop is not None:
                result = self._loop.run_until_complete(result)
        except (Exception, SystemExit) as error:
            raise BadCall(self._said(error)) from error
        return values_of(result, len(rows))

    def _given(self, request: _Request, results: list[Any], records: list[dict[str, Any]]) -> Answer:
        """The answer of a request's results."""
        nan, ids = self._deployment.nan, request.calls.ids
        record = dumps(records).encode() if records else b""
        if ids is None:
            return Answer(b'{"data": %b}' % self._encoded(results[0], "", nan).encode(), record=record)
        rows = [
            [one, {"error": result.text} if isinstance(result, _Failed) else result]
            for one, result in zip(ids, results, strict=True)
        ]
        try:
            text = dumps(rows, nan=nan)
        except (TypeError, ValueError):
            # One by one, to name the row.
            for place, result in enumerate(results):
                self._encoded(result, request.calls.where(place), nan)
            raise
        if request.told.get("parts"):
            return Answer(text[1:-1].encode(), record=record)
        return Answer(b'{"data": %b}' % text.encode(), record=record)

    @staticmethod
    def _encoded(result: Any, where: str, nan: str) -> str:
        try:
            return dumps(result, nan=nan)
        except (TypeError, ValueError) as error:
            raise BadCall(f"{where}{type(error).__name__}: {error}") from None


class _Takes:
    """How many arguments a function takes by position."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        try:
            parameters = [*inspect.signature(function).parameters.values()]
        except (TypeError, ValueError):  # Of built-in functions nothing is known.
            self._least, self._most, self._names = 0, sys.maxsize, ""
            return
        by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._least = sum(one.default is one.empty for one in by_place)
        is_open = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        self._most = sys.maxsize if is_open else len(by_place)
        self._names = f" ({', '.join(one.name for one in by_place)})" if by_place else ""

    def check(self, arguments: Sequence[Any], where: str) -> None:
        """Refuses a call with too many or too few.

        Raises:
            BadCall: it is one.
        """
        given = len(arguments)
        if self._least <= given <= self._most:
            return
        if self._least == self._most:
            wanted = str(self._least)
        elif self._most == sys.maxsize:
            wanted = f"{self._least} or more"
        else:
            wanted = f"{self._least} to {self._most}"
        noun = "argument" if wanted == "1" else "arguments"
        hint = "; the first value of each row is its id" if where else ""
        raise BadCall(f"{where}got {given}, but function {self.name} takes {wanted} {noun}{self._names}{hint}")


def _read(body: bytes, told: Mapping[str, Any]) -> _Request:
    parsed = body_of(body)
    calls = calls_of(parsed["data"], single=bool(told.get("single")))
    if (parts := int(told.get("parts", 0))) and calls.ids is not None:
        first, last = (int(told["part"]) + more for more in (0, 1))
        part = slice(first * len(calls.ids) // parts, last * len(calls.ids) // parts)
        calls = Calls(calls.ids[part], calls.arguments[part])
    return _Request(calls, told, parsed.get("per_row_errors") is True)


def _refused(error: BadCall) -> Answer:
    return Answer(json.dumps({"error": str(error)}).encode(), error.status)


def _record(request: _Request, place: int, result: Any, captured: _captured.Captured) -> dict[str, Any]:
    calls = request.calls
    record = {
        "id": place if calls.ids is None else calls.ids[place],
        "inputs": calls.arguments[place],
        "output": {"error": result.text} if isinstance(result, _Failed) else _kept(result),
        "stdout": captured.text.getvalue(),
    }
    if captured.images:
        record["images"] = captured.images
    return record


def _kept(result: Any) -> Any:
    try:
        return plain(result)
    except (TypeError, ValueError):
        return None


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
