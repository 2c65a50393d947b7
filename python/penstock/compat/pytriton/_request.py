"""Requests of a batch, as an inference callable receives them, with their spans.

The arrays of a request are views of the batch's arrays, without copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt

from penstock import Context, RequestInfo
from penstock.compat.pytriton.proxy.telemetry import end_span, get_telemetry_tracer, start_span_from_remote
from penstock.compat.pytriton.proxy.types import Request

__all__ = ["request_spans", "split_requests"]

Array = npt.NDArray[Any]

_NAME = "proxy_inference_callable"
_TRACE_HEADERS = ("traceparent", "tracestate")


def split_requests(
    names: Sequence[str], arrays: Sequence[Array | None], ctx: Context, *, batching: bool
) -> list[Request]:
    """Splits a batch into the requests of its clients.

    Args:
        names: Names of the inputs.
        arrays: One array for each input; None for an optional input that is missing.
        ctx: Parameters, headers and row counts of the requests.
        batching: The arrays have a batch axis.
    """
    inputs = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    infos = ctx.requests
    if len(infos) == 1 or not batching:
        return [_request(inputs, infos[0])]
    requests, start = [], 0
    for info in infos:
        end = start + info.rows
        requests.append(_request({name: array[start:end] for name, array in inputs.items()}, info))
        start = end
    return requests


def _request(data: dict[str, Array], info: RequestInfo) -> Request:
    # The parameters include forwarded headers. Lists occur in `generate` requests only.
    parameters: Any = info.parameters
    return Request(data, parameters, requested_output_names=list(info.outputs))


@contextmanager
def request_spans(requests: Sequence[Request], ctx: Context) -> Iterator[None]:
    """Context manager that runs a span for each request, below the client's span if the request names one."""
    if get_telemetry_tracer() is None:
        yield
        return
    for request, info in zip(requests, ctx.requests, strict=True):
        headers = info.headers
        request.span = start_span_from_remote(
            {name: headers[name] for name in _TRACE_HEADERS if name in headers}, _NAME
        )
    error = None
    try:
        yield
    except BaseException as raised:
        error = str(raised) or type(raised).__name__
        raise
    finally:
        for request in requests:
            end_span(request.span, error)
