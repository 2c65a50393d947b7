"""DataFrame mode: rows of requests as one frame, and what a function made of it as one value for each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np

from penstock.compat.modelbit._request import Calls, shown
from penstock.compat.modelbit._spec.metadata import Column
from penstock.compat.modelbit.errors import BadCall

__all__ = ["columns_of", "frame_of", "values_of"]


def columns_of(calls: Calls, columns: Sequence[Column], *, extra: str = "drop") -> dict[str, list[Any]]:
    """The columns of a request's rows, in declared order.

    Raises:
        BadCall: a row is no object, or has not all columns.
    """
    rows = calls.rows
    if not rows:
        return {column.name: [] for column in columns}
    # All rows at once, without a step of Python for each where nothing is wrong.
    if {*map(len, rows)} != {2} or {*map(type, map(_VALUE, rows))} != {dict}:
        _refuse(calls, columns, extra)
    cells: list[dict[str, Any]] = [row[1] for row in rows]
    if extra == "error" and max(map(len, cells)) > len(columns):
        _refuse(calls, columns, extra)
    try:
        return {column.name: [*map(itemgetter(column.name), cells)] for column in columns}
    except KeyError:
        _refuse(calls, columns, extra)


def _refuse(calls: Calls, columns: Sequence[Column], extra: str) -> NoReturn:
    """Says which row is none of a frame."""
    names = {column.name for column in columns}
    for place, (_, *arguments) in enumerate(calls.rows):
        where = calls.where(place)
        if len(arguments) != 1 or not isinstance(arguments[0], dict):
            given = arguments[0] if len(arguments) == 1 else arguments
            raise BadCall(f"{where}expected one object with the columns {_names(columns)}, not {shown(given)}")
        row: dict[str, Any] = arguments[0]
        for column in columns:
            if column.name not in row:
                raise BadCall(f"{where}the column {column.name!r} is missing; expected {_names(columns)}")
        if extra == "error" and (more := [one for one in row if one not in names]):
            raise BadCall(f"{where}there is no column {more[0]!r}; expected {_names(columns)}")
    raise AssertionError("all of them are rows of the frame")


def frame_of(values: Mapping[str, list[Any]], columns: Sequence[Column], ids: Sequence[Any]) -> Any:
    """The frame of columns: in declared order and of declared types, the ids as its index if they are unique.

    Raises:
        BadCall: a column cannot be of its declared type.
    """
    import pandas

    made = {column.name: _series(pandas, values[column.name], column) for column in columns}
    frame = pandas.DataFrame(made, columns=[column.name for column in columns])
    try:
        if len({*ids}) == len(ids):
            frame.index = pandas.Index(list(ids))
    except TypeError:  # An id that cannot be hashed.
        pass
    return frame


def values_of(result: Any, count: int) -> list[Any]:
    """What a function made of a frame: a value for each row.

    Raises:
        BadCall: it has not as many values as rows.
    """
    import pandas

    if isinstance(result, pandas.DataFrame):
        values = result.to_dict(orient="records")
    elif isinstance(result, (pandas.Series, pandas.Index)):
        values = result.tolist()
    elif isinstance(result, np.ndarray):
        values = list(result) if result.ndim > 1 else result.tolist()
    elif isinstance(result, (str, bytes, dict)) or not hasattr(result, "__iter__"):
        raise BadCall(
            f"the function gave {type(result).__name__} for a frame of {count} rows, expected a value for each row: "
            "a list, an array, a Series or a DataFrame"
        )
    else:
        values = list(result)
    if not isinstance(values, list):
        raise BadCall(f"the function gave one value for a frame of {count} rows, expected a value for each")
    if len(values) != count:
        raise BadCall(f"the function gave {len(values)} values for a frame of {count} rows, expected as many")
    return values


def _series(pandas: Any, values: list[Any], column: Column) -> Any:
    if column.dtype is None:
        return pandas.Series(values)
    if (types := _QUICK.get(column.dtype)) is not None and {*map(type, values)} <= types:
        try:
            return np.array(values, column.dtype)
        except OverflowError:  # A whole number of more than 64 bits.
            pass
    missing = None in values
    dtype = column.dtype
    if missing and dtype in ("bool", *_WHOLE):
        # These types have no value that is missing; floats do.
        dtype = "object" if dtype == "bool" else "float64"
    try:
        if dtype.startswith("datetime64"):
            return pandas.Series(pandas.to_datetime(values)).astype(dtype)
        return pandas.Series(values, dtype="object").astype(dtype) if values else pandas.Series(values, dtype=dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise BadCall(f"the column {column.name!r} must be {column.dtype}: {' '.join(str(error).split())}") from None


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)


_QUICK: dict[str, set[type]] = {"bool": {bool}, "int64": {int}, "float64": {int, float}}
"""Types of columns that most are of, and of values that make one without a look at each."""
_WHOLE = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_VALUE = itemgetter(1)
