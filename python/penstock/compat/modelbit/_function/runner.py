"""Calls of a function for requests: one call per row."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any

from penstock.compat.modelbit._function import capture
from penstock.compat.modelbit._function.arity import Arity
from penstock.compat.modelbit._json_codec import dumps, to_plain
from penstock.compat.modelbit._request import Calls, parse_body, parse_calls
from penstock.compat.modelbit._response import FunctionResponse, error_response
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit.errors import RequestError

__all__ = ["FunctionRequest", "Runner", "call_options", "log_record"]

_MAX_CONCURRENCY = 64
"""Rows of one request that an async function computes concurrently."""
_SINGLE: dict[str, Any] = {"single": True}
_ROWS: dict[str, Any] = {}


def call_options(single: bool) -> dict[str, Any]:
    """Returns the options of a request that is neither logged nor split."""
    return _SINGLE if single else _ROWS


@dataclass(slots=True)
class FunctionRequest:
    """A parsed request."""

    calls: Calls
    options: Mapping[str, Any]
    """Options of the gateway: `single`, `log`, and `part` of `parts`."""
    per_row_errors: bool
    """True if a row may fail without failing the request."""


class Runner:
    """Calls a function once per row.

    Args:
        deployment: The function's deployment.
        function: The function.
    """

    def __init__(self, deployment: Deployment, function: Callable[..., Any]) -> None:
        self.deployment, self._function = deployment, function
        self.is_coroutine = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            type(function).__call__
        )
        self._arity = Arity(function)
        self._loops = _ThreadLoops()

    @property
    def is_async(self) -> bool:
        """True if `respond_async` may be called."""
        return self.is_coroutine

    def respond(self, bodies: Sequence[bytes], options: Sequence[Mapping[str, Any]]) -> list[FunctionResponse]:
        """Responds to requests, one after the other."""
        return [self._respond(body, one) for body, one in zip(bodies, options, strict=True)]

    async def respond_async(self, body: bytes, options: Mapping[str, Any]) -> FunctionResponse:
        """Responds to a request by calling an async function on the running event loop."""
        try:
            request, lengths = self._parse(body, options)
            records = await self._call_rows_async(request, lengths)
            return self._encode(request, records)
        except RequestError as error:
            return error_response(error)

    def _respond(self, body: bytes, options: Mapping[str, Any]) -> FunctionResponse:
        if self.is_coroutine:
            response: FunctionResponse = self.run_until_complete(self.respond_async(body, options))
            return response
        try:
            request, lengths = self._parse(body, options)
            records = None
            if options.get("log"):
                records = [self._call_row_logged(request, index) for index in range(len(request.calls.rows))]
            else:
                self._call_rows(request, lengths)
            return self._encode(request, records)
        except RequestError as error:
            return error_response(error)

    def run_until_complete(self, coroutine: Any) -> Any:
        """Runs a coroutine on this thread's own event loop and returns its result."""
        return self._loops.get().run_until_complete(coroutine)

    def _parse(self, body: bytes, options: Mapping[str, Any]) -> tuple[FunctionRequest, Collection[int]]:
        request = self.parse(body, options)
        return request, self._arity.check(request.calls)

    @staticmethod
    def parse(body: bytes, options: Mapping[str, Any]) -> FunctionRequest:
        """Parses a request body. With the option `parts`, only the rows of its `part` are retained.

        Raises:
            RequestError: the body is invalid.
        """
        parsed = parse_body(body)
        calls = parse_calls(parsed["data"], single=bool(options.get("single")))
        if (parts := int(options.get("parts", 0))) and calls.batch:
            first, last = (int(options["part"]) + more for more in (0, 1))
            part = slice(first * len(calls.rows) // parts, last * len(calls.rows) // parts)
            calls = Calls(calls.rows[part])
        return FunctionRequest(calls, options, parsed.get("per_row_errors") is True)

    def _call_rows(self, request: FunctionRequest, lengths: Collection[int]) -> None:
        """Calls the function for each row and replaces the row's arguments by the result.

        The loop has no `try` and no index per row: for small functions these would cost as much as the call.
        """
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
                index = len(rows) - length_hint(left) - 1
                rows[index][1:] = [self._row_error(error, request, index)]

    def _call_row_logged(self, request: FunctionRequest, index: int) -> dict[str, Any]:
        """Calls the function for one row. Returns the row's log record."""
        row = request.calls.rows[index]
        arguments = row[1:]
        with capture.capturing() as captured:
            try:
                result = self._function(*arguments)
            except (Exception, SystemExit) as error:
                result = self._row_error(error, request, index)
        row[1:] = [result]
        return log_record(row[0], arguments, result, captured)

    async def _call_rows_async(self, request: FunctionRequest, lengths: Collection[int]) -> list[dict[str, Any]] | None:
        rows, is_logged = request.calls.rows, bool(request.options.get("log"))
        if len(rows) == 1 and not is_logged:
            await self._call_row_async(request, 0)
            return None
        slots = asyncio.Semaphore(_MAX_CONCURRENCY)

        async def call(index: int) -> dict[str, Any]:
            async with slots:
                if not is_logged:
                    await self._call_row_async(request, index)
                    return {}
                arguments = rows[index][1:]
                with capture.capturing() as captured:
                    await self._call_row_async(request, index)
                return log_record(rows[index][0], arguments, rows[index][1], captured)

        tasks = [asyncio.ensure_future(call(index)) for index in range(len(rows))]
        try:
            records = [*await asyncio.gather(*tasks)]
        finally:
            for task in tasks:
                task.cancel()
        return records if is_logged else None

    async def _call_row_async(self, request: FunctionRequest, index: int) -> None:
        row = request.calls.rows[index]
        try:
            row[1:] = [await self._function(*row[1:])]
        except (Exception, SystemExit) as error:
            row[1:] = [self._row_error(error, request, index)]

    def _row_error(self, error: BaseException, request: FunctionRequest, index: int) -> dict[str, str]:
        """Returns the result of a failed row; raises `RequestError` unless rows may fail separately."""
        text = self.error_text(error)
        if request.per_row_errors and request.calls.batch:
            return {"error": text}
        raise RequestError(_prefix_last_line(text, request.calls.location(index))) from error

    def error_text(self, error: BaseException) -> str:
        """Logs the traceback of an exception and returns its text for clients."""
        trace = "".join(traceback.format_exception(type(error), error, _user_traceback(error)))
        print(trace, file=sys.stderr, end="", flush=True)
        last = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        return f"{trace.rstrip()}\n{last}" if self.deployment.tracebacks else last

    def _encode(self, request: FunctionRequest, records: list[dict[str, Any]] | None) -> FunctionResponse:
        """Encodes the rows, whose second elements are their results. A part has no `data` and no brackets."""
        nan, calls = self.deployment.nan, request.calls
        record = dumps(records) if records else b""
        try:
            text = dumps(calls.rows if calls.batch else calls.rows[0][1], nan=nan)
        except (TypeError, ValueError) as error:
            # Encodes the rows one by one, so that the error names the row.
            for index, row in enumerate(calls.rows):
                try:
                    dumps(row[1], nan=nan)
                except (TypeError, ValueError) as row_error:
                    location = calls.location(index)
                    raise RequestError(f"{location}{type(row_error).__name__}: {row_error}") from None
            raise RequestError(f"{type(error).__name__}: {error}") from None
        if request.options.get("parts"):
            return FunctionResponse(text[1:-1], record=record)
        return FunctionResponse(b'{"data":%b}' % text, record=record)


class _ClosingLoop:
    """An event loop that is closed with its thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def __del__(self) -> None:
        self.loop.close()


class _ThreadLoops(threading.local):
    """One event loop per thread, created at first use."""

    def __init__(self) -> None:
        self._loop: _ClosingLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """Returns this thread's event loop."""
        if self._loop is None:
            self._loop = _ClosingLoop()
        return self._loop.loop


def log_record(id_: Any, arguments: Sequence[Any], result: Any, captured: capture.Capture) -> dict[str, Any]:
    """Returns a row's record for the request log."""
    try:
        output = to_plain(result)
    except (TypeError, ValueError):
        output = None
    record = {"id": id_, "inputs": arguments, "output": output, "stdout": captured.text.getvalue()}
    return {**record, "images": captured.images} if captured.images else record


def _prefix_last_line(text: str, prefix: str) -> str:
    """Puts the row's id into the last line: clients show no other."""
    *before, last = text.split("\n")
    return "\n".join([*before, prefix + last])


def _user_traceback(error: BaseException) -> Any:
    """Returns the traceback without this module's frames at its top."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace
