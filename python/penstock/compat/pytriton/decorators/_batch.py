"""`batch` and `sample`: named arrays instead of a list of requests."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.compat.pytriton.decorators._context import convert_output
from penstock.compat.pytriton.decorators._wrapping import decorator
from penstock.compat.pytriton.exceptions import PyTritonValidationError
from penstock.compat.pytriton.proxy.telemetry import start_span_from_span

__all__ = ["batch", "check_rows", "get_inference_request_batch_size", "sample"]

Array = npt.NDArray[Any]

_SPAN_NAME = "pytriton-batch-decorator-span"


def get_inference_request_batch_size(inference_request: Any) -> int:
    """Returns the row count of a request, which is that of its first input."""
    return len(next(iter(inference_request.values())))


@decorator
def sample(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the function with the inputs of the first request by name. It is for models without a batch axis."""

    def convert(returned: Any) -> list[dict[str, Any]]:
        return [convert_output(returned, wrapped, instance)]

    return _convert(wrapped(*args[1:], **kwargs, **dict(args[0][0].items())), convert)


@decorator
def batch(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the function once with the concatenated rows of all requests, one array for each input by name.

    The function returns a dict of arrays, or a list or tuple in the order of the outputs. A generator yields these.

    Raises:
        PyTritonValidationError: the requests have different inputs, or the return value has another type.
        ValueError: an output has a different row count.
    """
    requests, *others = args
    inputs = _concatenate(requests)
    rows = [get_inference_request_batch_size(request) for request in requests]

    def convert(returned: Any) -> list[dict[str, Array]]:
        return _split(convert_output(returned, wrapped, instance), rows)

    spans = [getattr(request, "span", None) for request in requests]
    child_spans = [start_span_from_span(span, _SPAN_NAME) for span in spans if span is not None]
    try:
        return _convert(wrapped(*others, **{**kwargs, **inputs}), convert)
    finally:
        for span in child_spans:
            span.end()


def check_rows(outputs: Mapping[str, Any], rows: int) -> None:
    """Checks the row count of every output.

    Raises:
        ValueError: a row count differs.
    """
    shapes = {name: np.shape(array) for name, array in outputs.items()}
    wrong = [f"{name}: {shape}" for name, shape in shapes.items() if not shape or shape[0] != rows]
    if wrong:
        raise ValueError(
            f"Received output tensors with different batch sizes: {', '.join(wrong)}. Expected batch size: {rows}. "
        )


def _concatenate(requests: Sequence[Any]) -> dict[str, Array]:
    names = requests[0].keys()
    if any(request.keys() != names for request in requests[1:]):
        raise PyTritonValidationError("Cannot batch requests with different set of inputs keys")
    if len(requests) == 1:
        return dict(requests[0].items())
    return {name: np.concatenate([request[name] for request in requests]) for name in names}


def _split(outputs: dict[str, Any], rows: Sequence[int]) -> list[dict[str, Array]]:
    check_rows(outputs, sum(rows))
    if len(rows) == 1:
        return [outputs]
    ends = np.cumsum(rows).tolist()
    slices = [slice(end - size, end) for end, size in zip(ends, rows, strict=True)]
    return [{name: array[part] for name, array in outputs.items()} for part in slices]


def _convert(returned: Any, convert: Callable[[Any], Any]) -> Any:
    """Converts a result, now or when a generator or awaitable produces it."""
    if inspect.isgenerator(returned):
        return _convert_generator(returned, convert)
    if inspect.isasyncgen(returned):
        return _convert_async_generator(returned, convert)
    return _convert_awaitable(returned, convert) if inspect.isawaitable(returned) else convert(returned)


def _convert_generator(results: Any, convert: Callable[[Any], Any]) -> Iterator[Any]:
    try:
        for result in results:
            yield convert(result)
    finally:
        results.close()


async def _convert_async_generator(results: Any, convert: Callable[[Any], Any]) -> AsyncIterator[Any]:
    try:
        async for result in results:
            yield convert(result)
    finally:
        await results.aclose()


async def _convert_awaitable(awaitable: Any, convert: Callable[[Any], Any]) -> Any:
    return convert(await awaitable)
