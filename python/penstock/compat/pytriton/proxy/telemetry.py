"""Spans of requests, where OpenTelemetry is installed."""

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

_set: dict[str, Any] = {}
"""The tracer, once it is set."""


def set_telemetry_tracer(tracer: Any) -> None:
    """Sets the tracer that requests get their spans of, for the whole process and once.

    Raises:
        ValueError: there is one.
    """
    if _set:
        raise ValueError("Telemetry tracer is already set")
    _set["tracer"] = tracer


def get_telemetry_tracer() -> Any:
    """The tracer that was set; None if none was."""
    return _set.get("tracer")


def get_span_dict(span: Any) -> dict[str, str]:
    """The span as W3C's headers, to be sent on."""
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers, trace.set_span_in_context(span))
    return headers


def start_span_from_remote(span_dict: dict[str, str], name: str) -> Any:
    """A new span below the one that W3C's headers name; None without a tracer. The caller ends it."""
    tracer = get_telemetry_tracer()
    if tracer is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return tracer.start_span(name, context=TraceContextTextMapPropagator().extract(span_dict))


def start_span_from_span(span: Any, name: str) -> Any:
    """A new span below this one. The caller ends it."""
    from opentelemetry import trace

    return get_telemetry_tracer().start_span(name, context=trace.set_span_in_context(span))


def end_span(span: Any, error: str | None = None) -> None:
    """Ends a span, well or with the error; None is no span."""
    if span is None:
        return
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.OK) if error is None else Status(StatusCode.ERROR, error))
    span.end()


@contextmanager
def traced_span(request: Any, span_name: str, **kwargs: Any) -> Iterator[None]:
    """A context in which a span of that name, below that of the request, is open. Nothing if it has none."""
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
    """What `TritonConfig.trace_config` says: the collector's URL and the OpenTelemetry resource.

    Raises:
        ValueError: its mode is another, or it names no URL.
        ImportError: OpenTelemetry's SDK is not installed.
    """
    if not any(_MODE in one for one in trace_config_list):
        raise ValueError("Only opentelemetry mode is supported")
    urls = [one.split(_URL, 1)[1] for one in trace_config_list if _URL in one]
    if not urls:
        raise ValueError("opentelemetry,url is required")
    said = [one[len(_RESOURCE) :] for one in trace_config_list if one.startswith(_RESOURCE)]
    pairs = [part.partition("=") for one in said for part in one.split(",")]
    raise_if_no_telemetry()
    from opentelemetry.sdk.resources import Resource

    return urls[0], Resource(attributes={key: value for key, _, value in pairs})


def build_proxy_tracer_from_triton_config(trace_config: Sequence[str]) -> Any:
    """A tracer that sends to the collector of that configuration; it becomes OpenTelemetry's own.

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
    """Checks that OpenTelemetry is there.

    Raises:
        ImportError: it is not; the text says what to install.
    """
    if "opentelemetry" not in sys.modules and importlib.util.find_spec("opentelemetry") is None:
        raise ImportError(f"OpenTelemetry is not installed. Please install it using 'pip install {_PACKAGES}'.")
