"""Separates failed rows from outputs in a handler's result."""

from __future__ import annotations

from typing import Any

from penstock._spec.results import RowErrors


def parted(returned: Any, count: int) -> tuple[list[tuple[int, BaseException]], Any]:
    """The failed rows in the result of a handler with `count` outputs, and the outputs, None if all rows failed.

    In the outputs a failed row has the values of another row, so that shapes stay the same.
    """
    failed: dict[int, BaseException] = {}
    outputs = _outputs(returned, count, failed)
    return list(failed.items()), outputs


def _outputs(returned: Any, count: int, failed: dict[int, BaseException]) -> Any:
    if isinstance(returned, RowErrors):
        failed.update(returned.errors)
        return _outputs(returned.outputs, count, failed)
    if isinstance(returned, dict):
        rows = {name: _rows(output, failed) for name, output in returned.items()}
        return None if any(output is None for output in rows.values()) else rows
    if isinstance(returned, tuple) or (isinstance(returned, list) and count > 1):
        outputs = tuple(_rows(output, failed) for output in returned)
        return None if any(output is None for output in outputs) else outputs
    return _rows(returned, failed)


def _rows(output: Any, failed: dict[int, BaseException]) -> Any:
    if not isinstance(output, list):
        return output
    errors = {row: value for row, value in enumerate(output) if isinstance(value, BaseException)}
    if not errors:
        return output
    failed.update(errors)
    good = next((value for value in output if not isinstance(value, BaseException)), None)
    return None if good is None else [good if row in errors else value for row, value in enumerate(output)]
