"""The span of each request, where a tracer is set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock import Context
from penstock.compat.pytriton.proxy.telemetry import end_span, get_telemetry_tracer, start_span_from_remote
from penstock.compat.pytriton.proxy.types import Request

__all__ = ["traced"]

_NAME = "proxy_inference_callable"
_CARRIED = ("traceparent", "tracestate")


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
