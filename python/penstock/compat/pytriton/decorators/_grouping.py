"""`group_by_keys` and `group_by_values`: one call for each group of compatible requests or rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.compat.pytriton.decorators._batch import batch, get_inference_request_batch_size
from penstock.compat.pytriton.decorators._context import NOT_INPUTS, convert_output
from penstock.compat.pytriton.decorators._wrapping import decorator, layers
from penstock.compat.pytriton.exceptions import PyTritonRuntimeError

__all__ = ["group_by_keys", "group_by_values"]

Array = npt.NDArray[Any]
Results = list[dict[str, Array]]


@decorator
def group_by_keys(wrapped: Any, _instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the function once for each group of requests with the same inputs."""
    requests, *others = args
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, request in enumerate(requests):
        groups.setdefault(tuple(sorted(request.keys())), []).append(index)
    if len(groups) == 1:
        return wrapped(requests, *others, **kwargs)
    results: list[Any] = [None] * len(requests)
    for _, indexes in sorted(groups.items()):
        group_results = wrapped([requests[index] for index in indexes], *others, **kwargs)
        for index, result in zip(indexes, group_results, strict=True):
            results[index] = result
    return results


def group_by_values(*keys: str, pad_fn: Callable[[Results], Results] | None = None) -> Callable[[Any], Any]:
    """Calls the function once for each group of rows with equal values of these inputs. Place it inside `batch`.

    The function returns a dict of arrays, or a list in the order of the outputs.

    Args:
        keys: Names of the inputs to compare. They have to be required inputs.
        pad_fn: Pads results of different shapes to one shape: for example a `ConstantPadder`.
    """

    def wrapper(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Array]:
        if batch in layers(wrapped):
            raise PyTritonRuntimeError("The @group_by_values decorator must be used after the @batch decorator.")
        inputs = {name: value for name, value in kwargs.items() if name not in NOT_INPUTS}
        others = {name: value for name, value in kwargs.items() if name in NOT_INPUTS}
        rows = get_inference_request_batch_size(inputs)
        groups = list(_groups(inputs, keys, rows))
        results = []
        for indexes in groups:
            returned = wrapped(*args, **{name: array[indexes] for name, array in inputs.items()}, **others)
            results.append(convert_output(returned, wrapped, instance))
        return _scatter(groups, results if pad_fn is None else pad_fn(results), rows)

    return decorator(wrapper)


def _groups(inputs: dict[str, Array], keys: Iterable[str], rows: int) -> Iterator[list[int]]:
    """Yields the row indexes of each group, in the order of the values."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in range(rows):
        found.setdefault(tuple(_value(inputs[key][row]) for key in keys), []).append(row)
    for _, indexes in sorted(found.items()):
        yield indexes


def _value(element: Any) -> Any:
    """Returns a hashable, sortable key of one row's value."""
    if not isinstance(element, np.ndarray):
        return element
    if element.dtype.kind != "O":
        return element.tobytes()
    # Length prefixes keep b"a", b"bc" different from b"ab", b"c".
    strings = [one if isinstance(one, bytes) else str(one).encode() for one in element.flat]
    return b"".join(len(string).to_bytes(4, "little") + string for string in strings)


def _scatter(groups: list[list[int]], results: Results, rows: int) -> dict[str, Array]:
    joined = {name: np.zeros((rows, *array.shape[1:]), dtype=array.dtype) for name, array in results[0].items()}
    for indexes, result in zip(groups, results, strict=True):
        for name, array in result.items():
            if array.shape[1:] != joined[name].shape[1:]:
                # numpy would broadcast an axis of size 1.
                shapes = f"{joined[name].shape[1:]} and {array.shape[1:]}"
                raise ValueError(f"Rows of {name!r} have shapes {shapes}: give group_by_values a pad_fn.")
            # Strings of the first group may be shorter than later ones.
            if array.dtype.kind in "SU" and array.dtype.itemsize > joined[name].dtype.itemsize:
                joined[name] = joined[name].astype(array.dtype)
            joined[name][indexes] = array
    return joined
