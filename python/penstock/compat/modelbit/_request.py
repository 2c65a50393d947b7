"""What a request's `data` means: which calls it stands for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NoReturn

from penstock.compat.modelbit._function.json_codec import loads
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Calls", "body_of", "calls_of", "shown"]


@dataclass(slots=True)
class Calls:
    """The calls of one request."""

    rows: list[list[Any]]
    """Each `[id, argument, ...]`; a single call has one here, whose id is its number."""
    batch: bool = True

    @property
    def ids(self) -> list[Any]:
        """The rows' ids, in the order of the request."""
        return [row[0] for row in self.rows]

    def where(self, place: int) -> str:
        """The beginning of a message about one of the calls."""
        return f"row id {shown(self.rows[place][0])}: " if self.batch else ""


def body_of(body: bytes) -> dict[str, Any]:
    """A request's body: JSON, whatever its content type says.

    Raises:
        BadCall: it is not what the integration takes.
    """
    try:
        parsed = loads(body)
    except (ValueError, RecursionError) as error:
        raise BadCall(f'the body is not JSON ({error}); expected {{"data": ...}}') from None
    if not isinstance(parsed, dict) or "data" not in parsed:
        raise BadCall(f'the body must be an object with the key "data", not {shown(parsed)}')
    return parsed


def calls_of(data: Any, *, single: bool = False) -> Calls:
    """The calls that `data` stands for.

    A list whose first element is a list is a batch of rows `[id, argument, ...]`; any other list has the arguments of
    one call; all else is the only argument of one call.

    Args:
        data: What the request has under that key.
        single: Whether `data` is one argument, whatever it looks like.

    Raises:
        BadCall: a batch has something else than rows, or `data` is nested twice.
    """
    if single:
        return Calls([[0, data]], batch=False)
    if isinstance(data, dict) and len(data) == 1 and "data" in data:
        raise BadCall('"data" is nested twice: send {"data": ...}, not {"data": {"data": ...}}')
    if not isinstance(data, list):
        return Calls([[0, data]], batch=False)
    if not data:
        return Calls([])
    if not isinstance(data[0], list):
        return Calls([[0, *data]], batch=False)
    # All rows at once, without a step of Python for each.
    if {*map(type, data)} != {list} or not all(data) or {list, dict} & {*map(type, map(_ID, data))}:
        _refuse(data)
    return Calls(data)


def _refuse(data: list[Any]) -> NoReturn:
    """Says which row is none."""
    for place, row in enumerate(data):
        if not isinstance(row, list):
            raise BadCall(
                f"row {place} of data is {shown(row)}, expected a list [id, argument, ...] like the first row"
            )
        if not row:
            raise BadCall(f"row {place} of data is empty, expected [id, argument, ...]")
        if isinstance(row[0], (list, dict)):
            raise BadCall(
                f"row {place} of data has the id {shown(row[0])}, expected a number, a text or null; "
                "each row is [id, argument, ...]"
            )
    raise AssertionError("all of them are rows")


def shown(value: Any) -> str:
    """A value for a message: short, as JSON."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_ID = itemgetter(0)
