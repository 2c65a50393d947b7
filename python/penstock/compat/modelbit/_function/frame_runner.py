"""Runs a function of frames for requests: all rows are one call, of several requests too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.compat.modelbit._function import capture
from penstock.compat.modelbit._function.frames import columns_of, frame_of, values_of
from penstock.compat.modelbit._function.runner import Answer, Asking, Runner, record, refused
from penstock.compat.modelbit.errors import BadCall

__all__ = ["FrameRunner"]


@dataclass(slots=True)
class _Part:
    """What a request has of a frame."""

    request: Asking
    columns: dict[str, list[Any]]

    @property
    def size(self) -> int:
        return len(self.request.calls.rows)


class FrameRunner(Runner):
    """Runs a function of frames for requests."""

    def answer(self, bodies: Sequence[bytes], told: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """Answers requests by one call; by one for each if that fails, so that nobody pays for another's mistake."""
        answers: dict[int, Answer] = {}
        parts: dict[int, _Part] = {}
        for place, body in enumerate(bodies):
            try:
                request = self.read(body, told[place])
                columns = columns_of(request.calls, self.deployment.columns or (), extra=self.deployment.extra)
                parts[place] = _Part(request, columns)
            except BadCall as error:
                answers[place] = refused(error)
        answers.update(zip(parts, self._framed([*parts.values()]), strict=True))
        return [answers[place] for place in range(len(bodies))]

    @property
    def is_async(self) -> bool:
        """Never: a function of frames is waited for by its thread."""
        return False

    def _framed(self, parts: list[_Part]) -> list[Answer]:
        if not parts:
            return []
        wanted = any(part.request.told.get("log") for part in parts)
        try:
            with capture.capturing(wanted) as captured:
                values = self._values(parts)
        except BadCall as error:
            if len(parts) > 1:
                return [self._framed([one])[0] for one in parts]
            return [refused(error)]
        answers, at = [], 0
        for part in parts:
            mine, at = values[at : at + part.size], at + part.size
            rows = part.request.calls.rows
            records = None
            if wanted:
                records = [record(row[0], row[1:], one, captured) for row, one in zip(rows, mine, strict=True)]
            for row, value in zip(rows, mine, strict=True):
                row[1] = value
            try:
                answers.append(self._given(part.request, records))
            except BadCall as error:
                answers.append(refused(error))
        return answers

    def _values(self, parts: list[_Part]) -> list[Any]:
        """A value for each row of all of them."""
        columns, ids = parts[0].columns, parts[0].request.calls.ids
        for part in parts[1:]:
            columns = {name: [*values, *part.columns[name]] for name, values in columns.items()}
            ids += part.request.calls.ids
        if not ids:
            return []
        frame = frame_of(columns, self.deployment.columns or (), ids)
        try:
            result = self._function(frame)
            if self.waits:
                result = self.wait(result)
        except (Exception, SystemExit) as error:
            raise BadCall(self.said(error)) from error
        return values_of(result, len(ids))
