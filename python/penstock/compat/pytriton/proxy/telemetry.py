"""Spans of requests, if OpenTelemetry is installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = [
    "build_proxy_tracer_from_triton_config",
    "end_span",
    "get_span_dict",
    "get_telemetry_tracer",
    "parse_trace_config",
    "raise_if_no_telemetry",
    "set_telemetry_tracer",
    "start_span_from_remote",
    "start_span_from_span",
    "traced_span",
]


_MODE, _URL, _RESOURCE = "mode=opentelemetry", "opentelemetry,url=", "opentelemetry,resource="
_PACKAGES = "opentelemetry-api opentelemetry-sdk opentelemetry-exporter-otlp"

_state: dict[str, Any] = {}
"""Holds the tracer after it is set."""


def set_telemetry_tracer(tracer: Any) -> None:
    """Sets the tracer of request spans, once per process.

    Raises:
        ValueError: a tracer is set already.
    """
    if _state:
        raise ValueError("Telemetry tracer is already set")
    _state["tracer"] = tracer


def get_telemetry_tracer() -> Any:
    """Returns the tracer, or None."""
    return _state.get("tracer")


def get_span_dict(span: Any) -> dict[str, str]:
    """Returns the W3C trace context headers of a span."""
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers, trace.set_span_in_context(span))
    return headers


def start_span_from_remote(span_dict: dict[str, str], name: str) -> Any:
    """Starts a child of the span in W3C headers. Returns None without a tracer. The caller ends the span."""
    tracer = get_telemetry_tracer()
    if tracer is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return tracer.start_span(name, context=TraceContextTextMapPropagator().extract(span_dict))


def start_span_from_span(span: Any, name: str) -> Any:
    """Starts a child of a span. The caller ends it."""
    from opentelemetry import trace

    return get_telemetry_tracer().start_span(name, context=trace.set_span_in_context(span))


def end_span(span: Any, error: str | None = None) -> None:
    """Ends a span, with an error status if an error is given. None is allowed."""
    if span is None:
        return
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.OK) if error is None else Status(StatusCode.ERROR, error))
    span.end()


@contextmanager
def traced_span(request: Any, span_name: str, **kwargs: Any) -> Iterator[None]:
    """Context manager of a child of the request's span. It has no effect without one."""
    tracer = get_telemetry_tracer()
    if request.span is None or tracer is None:
        yield
        return
    from opentelemetry import trace

    with (
        trace.use_span(request.span, end_on_exit=False, record_exception=False),
        tracer.start_as_current_span(span_name, **kwargs),
    ):
        yield


def parse_trace_config(trace_config_list: Sequence[str]) -> tuple[str, Any]:
    """Parses `TritonConfig.trace_config`. Returns the collector's URL and the OpenTelemetry resource.

    Raises:
        ValueError: the mode is not opentelemetry, or the URL is missing.
        ImportError: OpenTelemetry's SDK is not installed.
    """
    if not any(_MODE in one for one in trace_config_list):
        raise ValueError("Only opentelemetry mode is supported")
    urls = [one.split(_URL, 1)[1] for one in trace_config_list if _URL in one]
    if not urls:
        raise ValueError("opentelemetry,url is required")
    resources = [one[len(_RESOURCE) :] for one in trace_config_list if one.startswith(_RESOURCE)]
    pairs = [part.partition("=") for one in resources for part in one.split(",")]
    raise_if_no_telemetry()
    from opentelemetry.sdk.resources import Resource

    return urls[0], Resource(attributes={key: value for key, _, value in pairs})


def build_proxy_tracer_from_triton_config(trace_config: Sequence[str]) -> Any:
    """Returns a tracer that exports to the configured collector, and sets its provider as OpenTelemetry's global one.

    Raises:
        ValueError: as `parse_trace_config`.
        ImportError: OpenTelemetry is not installed.
    """
    raise_if_no_telemetry()
    url, resource = parse_trace_config(trace_config)
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    trace.set_tracer_provider(provider)
    return trace.get_tracer(__name__)


def raise_if_no_telemetry() -> None:
    """Checks that OpenTelemetry is installed.

    Raises:
        ImportError: it is not installed; the message names the packages.
    """
    if "opentelemetry" not in sys.modules and importlib.util.find_spec("opentelemetry") is None:
        raise ImportError(f"OpenTelemetry is not installed. Please install it using 'pip install {_PACKAGES}'.")
