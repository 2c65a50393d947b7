"""Conversion of rows to a DataFrame, and of a function's result to one value per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np

from penstock.compat.modelbit._request import Calls, format_value
from penstock.compat.modelbit._spec.metadata import Column
from penstock.compat.modelbit.errors import RequestError

__all__ = ["to_columns", "to_frame", "to_row_values"]


def to_columns(calls: Calls, columns: Sequence[Column], *, extra: str = "drop") -> dict[str, list[Any]]:
    """Returns the columns of a request's rows, in declared order.

    Raises:
        RequestError: a row is not an object, or lacks a column.
    """
    rows = calls.rows
    if not rows:
        return {column.name: [] for column in columns}
    # Checks all rows at once: no Python bytecode per row on the success path.
    if {*map(len, rows)} != {2} or {*map(type, map(_VALUE, rows))} != {dict}:
        _reject(calls, columns, extra)
    cells: list[dict[str, Any]] = [row[1] for row in rows]
    if extra == "error" and max(map(len, cells)) > len(columns):
        _reject(calls, columns, extra)
    try:
        return {column.name: [*map(itemgetter(column.name), cells)] for column in columns}
    except KeyError:
        _reject(calls, columns, extra)


def _reject(calls: Calls, columns: Sequence[Column], extra: str) -> NoReturn:
    """Raises the error for the first invalid row."""
    names = {column.name for column in columns}
    for index, (_, *arguments) in enumerate(calls.rows):
        where = calls.location(index)
        if len(arguments) != 1 or not isinstance(arguments[0], dict):
            got = format_value(arguments[0] if len(arguments) == 1 else arguments)
            raise RequestError(f"{where}expected one object with the columns {_names(columns)}, not {got}")
        row: dict[str, Any] = arguments[0]
        for column in columns:
            if column.name not in row:
                raise RequestError(f"{where}the column {column.name!r} is missing; expected {_names(columns)}")
        if extra == "error" and (more := [one for one in row if one not in names]):
            raise RequestError(f"{where}there is no column {more[0]!r}; expected {_names(columns)}")
    raise AssertionError("all rows are valid")


def to_frame(values: Mapping[str, list[Any]], columns: Sequence[Column], ids: Sequence[Any]) -> Any:
    """Returns a DataFrame with columns of declared order and dtype, indexed by the ids if they are unique.

    Raises:
        RequestError: a column cannot be converted to its declared dtype.
    """
    import pandas

    series = {column.name: _series(pandas, values[column.name], column) for column in columns}
    frame = pandas.DataFrame(series, columns=[column.name for column in columns])
    try:
        if len({*ids}) == len(ids):
            frame.index = pandas.Index(list(ids))
    except TypeError:  # An id is not hashable.
        pass
    return frame


def to_row_values(result: Any, count: int) -> list[Any]:
    """Returns a function's result as one value per row.

    Raises:
        RequestError: the number of values differs from the number of rows.
    """
    import pandas

    if isinstance(result, pandas.DataFrame):
        values = result.to_dict(orient="records")
    elif isinstance(result, (pandas.Series, pandas.Index)):
        values = result.tolist()
    elif isinstance(result, np.ndarray):
        values = list(result) if result.ndim > 1 else result.tolist()
    elif isinstance(result, (str, bytes, dict)) or not hasattr(result, "__iter__"):
        raise RequestError(
            f"the function gave {type(result).__name__} for a frame of {count} rows, expected a value for each row: "
            "a list, an array, a Series or a DataFrame"
        )
    else:
        values = list(result)
    if not isinstance(values, list):
        raise RequestError(f"the function gave one value for a frame of {count} rows, expected a value for each")
    if len(values) != count:
        raise RequestError(f"the function gave {len(values)} values for a frame of {count} rows, expected as many")
    return values


def _series(pandas: Any, values: list[Any], column: Column) -> Any:
    if column.dtype is None:
        return pandas.Series(values)
    if (types := _EXACT_TYPES.get(column.dtype)) is not None and {*map(type, values)} <= types:
        try:
            return np.array(values, column.dtype)
        except OverflowError:  # An integer over 64 bits.
            pass
    missing = None in values
    dtype = column.dtype
    if missing and dtype in ("bool", *_INTEGERS):
        # These dtypes have no missing value.
        dtype = "object" if dtype == "bool" else "float64"
    try:
        if dtype.startswith("datetime64"):
            return pandas.Series(pandas.to_datetime(values)).astype(dtype)
        return pandas.Series(values, dtype="object").astype(dtype) if values else pandas.Series(values, dtype=dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise RequestError(
            f"the column {column.name!r} must be {column.dtype}: {' '.join(str(error).split())}"
        ) from None


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)


_EXACT_TYPES: dict[str, set[type]] = {"bool": {bool}, "int64": {int}, "float64": {int, float}}
"""The Python types that each of these dtypes converts from without a check per value."""
_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_VALUE = itemgetter(1)
