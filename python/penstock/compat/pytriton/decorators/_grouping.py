"""`group_by_keys` and `group_by_values`: several calls for what does not go together."""

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
    """Calls the function once for all requests that have the same inputs."""
    requests, *others = args
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, request in enumerate(requests):
        groups.setdefault(tuple(sorted(request.keys())), []).append(place)
    if len(groups) == 1:
        return wrapped(requests, *others, **kwargs)
    results: list[Any] = [None] * len(requests)
    for _, places in sorted(groups.items()):
        answered = wrapped([requests[place] for place in places], *others, **kwargs)
        for place, result in zip(places, answered, strict=True):
            results[place] = result
    return results


def group_by_values(*keys: str, pad_fn: Callable[[Results], Results] | None = None) -> Callable[[Any], Any]:
    """Calls the function once for all rows that have the same values of these inputs. It goes inside of `batch`.

    The function returns a dict of arrays, or a list of them in the order of the outputs.

    Args:
        keys: The inputs that must agree. They are required ones.
        pad_fn: Makes the results one shape again, where they differ: for example a `ConstantPadder`.
    """

    def wrapper(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Array]:
        if batch in layers(wrapped):
            raise PyTritonRuntimeError("The @group_by_values decorator must be used after the @batch decorator.")
        inputs = {name: value for name, value in kwargs.items() if name not in NOT_INPUTS}
        others = {name: value for name, value in kwargs.items() if name in NOT_INPUTS}
        rows = get_inference_request_batch_size(inputs)
        groups = list(_groups(inputs, keys, rows))
        results = []
        for places in groups:
            returned = wrapped(*args, **{name: array[places] for name, array in inputs.items()}, **others)
            results.append(convert_output(returned, wrapped, instance))
        return _scattered(groups, results if pad_fn is None else pad_fn(results), rows)

    return decorator(wrapper)


def _groups(inputs: dict[str, Array], keys: Iterable[str], rows: int) -> Iterator[list[int]]:
    """The rows of each group, in the order of their values."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in range(rows):
        found.setdefault(tuple(_value(inputs[key][row]) for key in keys), []).append(row)
    for _, places in sorted(found.items()):
        yield places


def _value(element: Any) -> Any:
    """What one row's value is told apart, and sorted, by."""
    if not isinstance(element, np.ndarray):
        return element
    if element.dtype.kind != "O":
        return element.tobytes()
    # With the length of each, so that b"a", b"bc" is not b"ab", b"c".
    texts = [one if isinstance(one, bytes) else str(one).encode() for one in element.flat]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def _scattered(groups: list[list[int]], results: Results, rows: int) -> dict[str, Array]:
    joined = {name: np.zeros((rows, *array.shape[1:]), dtype=array.dtype) for name, array in results[0].items()}
    for places, result in zip(groups, results, strict=True):
        for name, array in result.items():
            if array.shape[1:] != joined[name].shape[1:]:
                # numpy would repeat what is one wide.
                shapes = f"{joined[name].shape[1:]} and {array.shape[1:]}"
                raise ValueError(f"Rows of {name!r} have shapes {shapes}: give group_by_values a pad_fn.")
            # The first group's texts may be the shorter ones.
            if array.dtype.kind in "SU" and array.dtype.itemsize > joined[name].dtype.itemsize:
                joined[name] = joined[name].astype(array.dtype)
            joined[name][places] = array
    return joined
