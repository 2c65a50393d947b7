"""DataFrame mode: one call of a function for all rows, of several requests too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.compat.modelbit._function import capture
from penstock.compat.modelbit._function.frames import to_columns, to_frame, to_row_values
from penstock.compat.modelbit._function.runner import FunctionRequest, Runner, log_record
from penstock.compat.modelbit._response import FunctionResponse, error_response
from penstock.compat.modelbit.errors import RequestError

__all__ = ["FrameRunner"]


@dataclass(slots=True)
class _Part:
    """The rows of one request within a frame."""

    request: FunctionRequest
    columns: dict[str, list[Any]]

    @property
    def size(self) -> int:
        return len(self.request.calls.rows)


class FrameRunner(Runner):
    """Calls a function of a DataFrame."""

    def respond(self, bodies: Sequence[bytes], options: Sequence[Mapping[str, Any]]) -> list[FunctionResponse]:
        """Responds to requests by one call.

        If that call fails, each request gets its own call: one request's bad data does not fail the others.
        """
        responses: dict[int, FunctionResponse] = {}
        parts: dict[int, _Part] = {}
        for index, body in enumerate(bodies):
            try:
                request = self.parse(body, options[index])
                columns = to_columns(request.calls, self.deployment.columns or (), extra=self.deployment.extra)
                parts[index] = _Part(request, columns)
            except RequestError as error:
                responses[index] = error_response(error)
        responses.update(zip(parts, self._respond_by_frame([*parts.values()]), strict=True))
        return [responses[index] for index in range(len(bodies))]

    @property
    def is_async(self) -> bool:
        """Always false: the calling thread runs an async function of a frame to its end."""
        return False

    def _respond_by_frame(self, parts: list[_Part]) -> list[FunctionResponse]:
        if not parts:
            return []
        is_logged = any(part.request.options.get("log") for part in parts)
        try:
            with capture.capturing(is_logged) as captured:
                values = self._call(parts)
        except RequestError as error:
            if len(parts) > 1:
                return [self._respond_by_frame([one])[0] for one in parts]
            return [error_response(error)]
        responses, start = [], 0
        for part in parts:
            results, start = values[start : start + part.size], start + part.size
            rows = part.request.calls.rows
            records = None
            if is_logged:
                records = [log_record(row[0], row[1:], one, captured) for row, one in zip(rows, results, strict=True)]
            for row, value in zip(rows, results, strict=True):
                row[1] = value
            try:
                responses.append(self._encode(part.request, records))
            except RequestError as error:
                responses.append(error_response(error))
        return responses

    def _call(self, parts: list[_Part]) -> list[Any]:
        """Calls the function with the rows of all parts. Returns one value per row."""
        columns, ids = parts[0].columns, parts[0].request.calls.ids
        for part in parts[1:]:
            columns = {name: [*values, *part.columns[name]] for name, values in columns.items()}
            ids += part.request.calls.ids
        if not ids:
            return []
        frame = to_frame(columns, self.deployment.columns or (), ids)
        try:
            result = self._function(frame)
            if self.is_coroutine:
                result = self.run_until_complete(result)
        except (Exception, SystemExit) as error:
            raise RequestError(self.error_text(error)) from error
        return to_row_values(result, len(ids))
