"""DataFrame mode: rows of requests as one frame, and what a function made of it as one value for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.compat.modelbit._arguments import shown
from penstock.compat.modelbit._metadata import Column
from penstock.compat.modelbit.errors import BadCall

__all__ = ["frame_of", "row_of", "values_of"]


def row_of(arguments: list[Any], columns: Sequence[Column], where: str, *, extra: str = "drop") -> dict[str, Any]:
    """A row's values by column.

    Raises:
        BadCall: it is no object, or has not all columns.
    """
    if len(arguments) != 1 or not isinstance(arguments[0], dict):
        given = arguments[0] if len(arguments) == 1 else arguments
        raise BadCall(f"{where}expected one object with the columns {_names(columns)}, not {shown(given)}")
    row: dict[str, Any] = arguments[0]
    for column in columns:
        if column.name not in row:
            raise BadCall(f"{where}the column {column.name!r} is missing; expected {_names(columns)}")
    if extra == "error" and len(row) > len(columns):
        known = {column.name for column in columns}
        raise BadCall(f"{where}there is no column {next(iter(set(row) - known))!r}; expected {_names(columns)}")
    return row


def frame_of(rows: Sequence[dict[str, Any]], columns: Sequence[Column], ids: Sequence[Any]) -> Any:
    """The frame of rows: the columns in declared order and of declared types, the ids as its index if they are unique.

    Raises:
        BadCall: a column cannot be of its declared type.
    """
    import pandas

    made = {column.name: _series(pandas, [row[column.name] for row in rows], column) for column in columns}
    index = None
    try:
        if len(set(ids)) == len(ids):
            index = pandas.Index(list(ids))
    except TypeError:  # An id that cannot be hashed.
        index = None
    frame = pandas.DataFrame(made, columns=[column.name for column in columns])
    if index is not None:
        frame.index = index
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
    missing = any(value is None for value in values)
    dtype = column.dtype
    if missing and dtype in ("bool", *_WHOLE):
        # These types have no value that is missing; floats do.
        dtype = "object" if dtype == "bool" else "float64"
    try:
        if dtype.startswith("datetime64"):
            return pandas.Series(pandas.to_datetime(values)).astype(dtype)
        return pandas.Series(values, dtype="object").astype(dtype) if values else pandas.Series(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise BadCall(f"the column {column.name!r} must be {column.dtype}: {' '.join(str(error).split())}") from None


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)


_WHOLE = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
