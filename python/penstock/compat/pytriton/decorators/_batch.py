"""`batch` and `sample`: named arrays in place of a list of requests."""

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

_SPAN = "pytriton-batch-decorator-span"


def get_inference_request_batch_size(inference_request: Any) -> int:
    """The rows of a request: those of its first input."""
    return len(next(iter(inference_request.values())))


@decorator
def sample(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the function with the first request's inputs by name, for models without a batch axis."""

    def answer(returned: Any) -> list[dict[str, Any]]:
        return [convert_output(returned, wrapped, instance)]

    return _each(wrapped(*args[1:], **kwargs, **dict(args[0][0].items())), answer)


@decorator
def batch(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the function once with the rows of all requests, an array for each input by name.

    It returns a dict of arrays, or a list or tuple in the order of the outputs; a generator yields these.

    Raises:
        PyTritonValidationError: the requests have different inputs, or what is returned is none of these.
        ValueError: an output has another number of rows.
    """
    requests, *others = args
    inputs = _joined(requests)
    rows = [get_inference_request_batch_size(request) for request in requests]

    def answer(returned: Any) -> list[dict[str, Array]]:
        return _parted(convert_output(returned, wrapped, instance), rows)

    spans = [getattr(request, "span", None) for request in requests]
    below = [start_span_from_span(span, _SPAN) for span in spans if span is not None]
    try:
        return _each(wrapped(*others, **{**kwargs, **inputs}), answer)
    finally:
        for span in below:
            span.end()


def check_rows(outputs: Mapping[str, Any], rows: int) -> None:
    """Checks that every output has a row for each of the batch.

    Raises:
        ValueError: one has not.
    """
    shapes = {name: np.shape(array) for name, array in outputs.items()}
    wrong = [f"{name}: {shape}" for name, shape in shapes.items() if not shape or shape[0] != rows]
    if wrong:
        raise ValueError(
            f"Received output tensors with different batch sizes: {', '.join(wrong)}. Expected batch size: {rows}. "
        )


def _joined(requests: Sequence[Any]) -> dict[str, Array]:
    names = requests[0].keys()
    if any(request.keys() != names for request in requests[1:]):
        raise PyTritonValidationError("Cannot batch requests with different set of inputs keys")
    if len(requests) == 1:
        return dict(requests[0].items())
    return {name: np.concatenate([request[name] for request in requests]) for name in names}


def _parted(outputs: dict[str, Any], rows: Sequence[int]) -> list[dict[str, Array]]:
    check_rows(outputs, sum(rows))
    if len(rows) == 1:
        return [outputs]
    ends = np.cumsum(rows).tolist()
    cuts = [slice(end - size, end) for end, size in zip(ends, rows, strict=True)]
    return [{name: array[cut] for name, array in outputs.items()} for cut in cuts]


def _each(returned: Any, answer: Callable[[Any], Any]) -> Any:
    """The same of what is awaited or yielded, where it is not there yet."""
    if inspect.isgenerator(returned):
        return _of_generator(returned, answer)
    if inspect.isasyncgen(returned):
        return _of_async_generator(returned, answer)
    return _of_awaitable(returned, answer) if inspect.isawaitable(returned) else answer(returned)


def _of_generator(pieces: Any, answer: Callable[[Any], Any]) -> Iterator[Any]:
    try:
        for piece in pieces:
            yield answer(piece)
    finally:
        pieces.close()


async def _of_async_generator(pieces: Any, answer: Callable[[Any], Any]) -> AsyncIterator[Any]:
    try:
        async for piece in pieces:
            yield answer(piece)
    finally:
        await pieces.aclose()


async def _of_awaitable(awaited: Any, answer: Callable[[Any], Any]) -> Any:
    return answer(await awaited)
