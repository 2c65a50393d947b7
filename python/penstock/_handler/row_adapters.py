"""Adapters of batched values: `list[X]`, one element per row. A row that cannot be read fails its request only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock._handler.adapters import Adapter, mismatch, object_array
from penstock._handler.parameters import BoundTensor
from penstock._spec.results import RowErrors
from penstock.errors import PenstockError

__all__ = ["bind_rows", "row_adapter"]


def row_adapter(element: Adapter, declared: str) -> Adapter:
    """The adapter of a list of rows.

    Args:
        element: The adapter of one row, a value without axes.
        declared: The hint of the list, for messages.
    """
    tensor = element.tensor

    def to_python(array: np.ndarray[Any, Any], name: str) -> list[Any]:
        if tensor.dtype is not None or (tensor.text and not tensor.document):
            return list(array.tolist())
        return [_row(element, value, name) for value in array]

    def to_array(value: Any, name: str) -> np.ndarray[Any, Any]:
        if not isinstance(value, (list, tuple, np.ndarray)):
            raise mismatch(value, name, declared)
        rows = [row if isinstance(row, BaseException) else element.to_array(row, name) for row in value]
        if any(isinstance(row, BaseException) for row in rows):
            # The rows that failed are taken out by the caller.
            return [row if isinstance(row, BaseException) else np.asarray(row) for row in rows]  # type: ignore[return-value]
        array: np.ndarray[Any, Any] = np.empty(len(rows), dtype=object if tensor.dtype is None else tensor.dtype)
        for index, row in enumerate(rows):
            array[index] = row.item() if isinstance(row, np.ndarray) else row
        return array

    return replace(element, to_python=to_python, to_array=to_array, by_row=True)


def _row(element: Adapter, value: Any, name: str) -> Any:
    try:
        return element.to_python(object_array(value), name)
    except PenstockError as error:
        return error


def bind_rows(call: Callable[..., Any], inputs: Sequence[BoundTensor], *, awaits: bool) -> Callable[..., Any]:
    """Returns a callable of converted inputs that leaves out rows with an exception, and fails only these.

    Args:
        call: Calls the handler with converted inputs.
        inputs: The bound inputs.
        awaits: Whether `call` returns an awaitable; the result is then one, too.
    """
    by_row = [index for index, bound in enumerate(inputs) if bound.adapter is not None and bound.adapter.by_row]

    def call_without_failed(values: Sequence[Any]) -> Any:
        failed: dict[int, BaseException] = {}
        for index in by_row:
            for row, value in enumerate(values[index] or ()):
                if isinstance(value, BaseException):
                    failed.setdefault(row, value)
        if not failed:
            return call(values)
        count = len(values[by_row[0]])
        kept = [row for row in range(count) if row not in failed]
        if not kept:
            return _resolved(RowErrors(failed)) if awaits else RowErrors(failed)
        left = [_taken(value, kept) if index < len(inputs) else value for index, value in enumerate(values)]
        # A failed row gets the outputs of another one, which are ignored.
        places = np.searchsorted(kept, np.arange(count)).clip(max=len(kept) - 1)
        if awaits:
            return _spread_awaited(call(left), places, kept, failed)
        return _spread(call(left), places, kept, failed)

    return call_without_failed


async def _resolved(value: Any) -> Any:
    return value


async def _spread_awaited(
    returned: Any, places: np.ndarray[Any, Any], kept: list[int], failed: dict[int, BaseException]
) -> Any:
    return _spread(await returned, places, kept, failed)


def _taken(value: Any, rows: list[int]) -> Any:
    if value is None:
        return None
    return [value[row] for row in rows] if isinstance(value, list) else value[rows]


def _spread(returned: Any, places: np.ndarray[Any, Any], kept: list[int], failed: dict[int, BaseException]) -> Any:
    if isinstance(returned, RowErrors):
        failed |= {kept[row]: error for row, error in returned.errors.items() if row < len(kept)}
        return RowErrors(failed, None if returned.outputs is None else _places(returned.outputs, places))
    return RowErrors(failed, _places(returned, places))


def _places(outputs: Any, places: np.ndarray[Any, Any]) -> Any:
    if isinstance(outputs, tuple):
        return tuple(_places(output, places) for output in outputs)
    if isinstance(outputs, dict):
        return {name: _places(output, places) for name, output in outputs.items()}
    if isinstance(outputs, list):
        return [outputs[place] for place in places if place < len(outputs)]
    return outputs[places]
