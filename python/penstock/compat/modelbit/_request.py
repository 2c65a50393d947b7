"""Request bodies: the calls that `data` stands for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NoReturn

from penstock.compat.modelbit._json_codec import loads
from penstock.compat.modelbit.errors import RequestError

__all__ = ["Calls", "format_value", "is_single", "parse_body", "parse_calls"]


@dataclass(slots=True)
class Calls:
    """The calls of one request."""

    rows: list[list[Any]]
    """Each `[id, argument, ...]`. A single call is one row with the id 0."""
    batch: bool = True

    @property
    def ids(self) -> list[Any]:
        """The rows' ids, in request order."""
        return [row[0] for row in self.rows]

    def location(self, index: int) -> str:
        """Returns the prefix of an error message about one row; empty for a single call."""
        return f"row id {format_value(self.rows[index][0])}: " if self.batch else ""


def is_single(headers: Mapping[str, str]) -> bool:
    """Returns whether the header X-Single marks `data` as one argument, whatever its form."""
    return headers.get("x-single", "").lower() == "true"


def parse_body(body: bytes) -> dict[str, Any]:
    """Parses a body as JSON, whatever its content type.

    Raises:
        RequestError: the body is not a JSON object with the key `data`.
    """
    try:
        parsed = loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(f'the body is not JSON ({error}); expected {{"data": ...}}') from None
    if not isinstance(parsed, dict) or "data" not in parsed:
        raise RequestError(f'the body must be an object with the key "data", not {format_value(parsed)}')
    return parsed


def parse_calls(data: Any, *, single: bool = False) -> Calls:
    """Returns the calls that `data` stands for.

    A list whose first element is a list is a batch of rows `[id, argument, ...]`. Any other list has the arguments of
    one call. Any other value is the only argument of one call.

    Args:
        data: The value of the body's key `data`.
        single: Whether `data` is one argument, whatever its form.

    Raises:
        RequestError: an element of a batch is not a row, or `data` is nested twice.
    """
    if single:
        return Calls([[0, data]], batch=False)
    if isinstance(data, dict) and len(data) == 1 and "data" in data:
        raise RequestError('"data" is nested twice: send {"data": ...}, not {"data": {"data": ...}}')
    if not isinstance(data, list):
        return Calls([[0, data]], batch=False)
    if not data:
        return Calls([])
    if not isinstance(data[0], list):
        return Calls([[0, *data]], batch=False)
    # Checks all rows at once: no Python bytecode per row on the success path.
    if {*map(type, data)} != {list} or not all(data) or {list, dict} & {*map(type, map(_ID, data))}:
        _reject(data)
    return Calls(data)


def _reject(data: list[Any]) -> NoReturn:
    """Raises the error for the first invalid row."""
    for index, row in enumerate(data):
        if not isinstance(row, list):
            raise RequestError(
                f"row {index} of data is {format_value(row)}, expected a list [id, argument, ...] like the first row"
            )
        if not row:
            raise RequestError(f"row {index} of data is empty, expected [id, argument, ...]")
        if isinstance(row[0], (list, dict)):
            raise RequestError(
                f"row {index} of data has the id {format_value(row[0])}, expected a number, a text or null; "
                "each row is [id, argument, ...]"
            )
    raise AssertionError("all rows are valid")


def format_value(value: Any) -> str:
    """Returns a value for an error message: as JSON, at most 60 characters."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_ID = itemgetter(0)
