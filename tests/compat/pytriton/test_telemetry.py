"""1.12: spans of requests, with a tracer."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bound import bound, rows, stream_outputs
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock import HandlerError
from penstock.compat.pytriton.decorators import batch
from penstock.compat.pytriton.proxy import telemetry

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Recorded spans; the tracer is set for this test."""
    monkeypatch.setattr(telemetry, "_state", {})
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.set_telemetry_tracer(provider.get_tracer("test"))
    return exporter


def parents(spans: InMemorySpanExporter) -> dict[str, str]:
    """Returns the parent's name of each span by name, or the id of a remote parent."""
    recorded = spans.get_finished_spans()
    names = {span.context.span_id: span.name for span in recorded if span.context}
    return {span.name: names.get(span.parent.span_id, f"{span.parent.span_id:x}") for span in recorded if span.parent}


def test_span_of_a_request_has_the_clients_span_as_parent(spans: InMemorySpanExporter) -> None:
    def infer(requests: list[Any]) -> list[dict[str, Any]]:
        with requests[0].traced_span("step"):
            assert trace.get_current_span().is_recording()
        return [{"y": request["x"]} for request in requests]

    with bound(infer) as client:
        client.infer("m", {"x": rows(1)}, headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})
    assert parents(spans) == {"step": "proxy_inference_callable", "proxy_inference_callable": SPAN}
    assert {f"{span.context.trace_id:x}" for span in spans.get_finished_spans() if span.context} == {TRACE[1:]}
    assert {span.status.status_code for span in spans.get_finished_spans()} >= {trace.StatusCode.OK}


def test_batch_decorator_has_a_span(spans: InMemorySpanExporter) -> None:
    with bound(batch(lambda x: [x])) as client:
        client.infer("m", {"x": rows(1)})
    assert parents(spans) == {"pytriton-batch-decorator-span": "proxy_inference_callable"}


def test_exception_sets_the_spans_status(spans: InMemorySpanExporter) -> None:
    async def infer(requests: list[Any]) -> Any:
        raise ValueError("no")

    with bound(infer) as client, pytest.raises(HandlerError):
        client.infer("m", {"x": rows(1)})
    (span,) = spans.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (trace.StatusCode.ERROR, "no")


def test_span_of_a_stream_ends_with_the_stream(spans: InMemorySpanExporter) -> None:
    async def infer(requests: list[Any]) -> AsyncIterator[Any]:
        for _ in range(2):
            assert not spans.get_finished_spans()
            yield [{"y": request["x"]} for request in requests]

    with bound(infer, decoupled=True) as client:
        assert stream_outputs(client, 1) == [[1.0], [1.0]]
    assert [span.name for span in spans.get_finished_spans()] == ["proxy_inference_callable"]


def test_spans_are_propagated_by_headers(spans: InMemorySpanExporter) -> None:
    tracer = telemetry.get_telemetry_tracer()
    first = tracer.start_span("first")
    telemetry.end_span(telemetry.start_span_from_remote(telemetry.get_span_dict(first), "remote"))
    telemetry.end_span(telemetry.start_span_from_span(first, "child"), "went wrong")
    telemetry.end_span(first)
    telemetry.end_span(None)
    assert parents(spans) == {"remote": "first", "child": "first"}


def test_tracer_can_be_set_only_once(spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="Telemetry tracer is already set"):
        telemetry.set_telemetry_tracer(object())
    monkeypatch.setattr(telemetry, "_state", {})
    assert telemetry.get_telemetry_tracer() is None
    assert telemetry.start_span_from_remote({}, "none") is None


def test_trace_config_sets_collector_and_resource() -> None:
    trace_config = [
        "mode=opentelemetry",
        "opentelemetry,url=http://h:1/v1",
        "opentelemetry,resource=service.name=s,k=v=w",
    ]
    url, resource = telemetry.parse_trace_config(trace_config)
    assert url == "http://h:1/v1"
    assert (resource.attributes["service.name"], resource.attributes["k"]) == ("s", "v=w")
    with pytest.raises(ValueError, match="Only opentelemetry mode is supported"):
        telemetry.parse_trace_config(["mode=triton"])
    with pytest.raises(ValueError, match="opentelemetry,url is required"):
        telemetry.parse_trace_config(["mode=opentelemetry"])


def test_missing_opentelemetry_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"OpenTelemetry is not installed\. Please install it using 'pip install"):
        telemetry.build_proxy_tracer_from_triton_config(["mode=opentelemetry"])
