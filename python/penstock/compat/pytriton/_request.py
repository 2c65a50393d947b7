"""The requests that an inference callable gets of a batch: views of its arrays, no copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt

from penstock import Context, RequestInfo
from penstock.compat.pytriton.proxy.telemetry import end_span, get_telemetry_tracer, start_span_from_remote
from penstock.compat.pytriton.proxy.types import Request

__all__ = ["requests_of", "traced"]

Array = npt.NDArray[Any]

_NAME = "proxy_inference_callable"
_CARRIED = ("traceparent", "tracestate")


def requests_of(names: Sequence[str], arrays: Sequence[Array | None], ctx: Context, *, batching: bool) -> list[Request]:
    """A request for each that is joined in the batch.

    Args:
        names: The inputs.
        arrays: Their arrays; None for an optional one that is not there.
        ctx: What the callers sent beside them.
        batching: Whether the arrays have a batch axis.
    """
    inputs = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    callers = ctx.requests
    if len(callers) == 1 or not batching:
        return [_request(inputs, callers[0])]
    requests, start = [], 0
    for caller in callers:
        end = start + caller.rows
        requests.append(_request({name: array[start:end] for name, array in inputs.items()}, caller))
        start = end
    return requests


def _request(data: dict[str, Array], caller: RequestInfo) -> Request:
    # Headers that the server forwards are among the parameters, and lists come by generate alone.
    parameters: Any = caller.parameters
    return Request(data, parameters, requested_output_names=list(caller.outputs))


@contextmanager
def traced(requests: Sequence[Request], ctx: Context) -> Iterator[None]:
    """A context in which each request has a span, below that of its caller if it sent one."""
    if get_telemetry_tracer() is None:
        yield
        return
    for request, caller in zip(requests, ctx.requests, strict=True):
        sent = caller.headers
        request.span = start_span_from_remote({name: sent[name] for name in _CARRIED if name in sent}, _NAME)
    error = None
    try:
        yield
    except BaseException as raised:
        error = str(raised) or type(raised).__name__
        raise
    finally:
        for request in requests:
            end_span(request.span, error)
