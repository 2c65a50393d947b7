"""OpenTelemetry context of a handler's call: the span of its request becomes the current one."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["attach", "detach"]


def attach(traceparent: str, tracestate: str) -> Any:
    """Makes a span the current one of OpenTelemetry. Returns a token for `detach`, or None if it is not installed."""
    try:
        from opentelemetry import context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    try:
        span_context = TraceContextTextMapPropagator().extract(
            {"traceparent": traceparent, "tracestate": tracestate}, context=context.get_current()
        )
        return context.attach(span_context)
    except Exception:
        logging.getLogger("penstock").exception("a handler's spans are not tied to its request's")
        return None


def detach(token: Any) -> None:
    """Undoes `attach`."""
    from opentelemetry import context

    context.detach(token)
