"""Request spans as a collector receives them: parents, links, times, attributes; and no delay of requests."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from opentelemetry import trace
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tritonclient.grpc import service_pb2, service_pb2_grpc

from collector import Collector, attributes, collecting
from http_by_hand import get, infer, json_body, metric_at, openmetrics, post
from models import in_processes
from penstock import Batching, ConfigError, Context, InvalidInput, Model, Server, ServerConfig, Tensor, model
from waiting import Gate, at_once, until

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SENT = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=1,other=2"}
UNSAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-00"}
X = {"x": np.ones(2, np.float32)}
FLOATS: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}

contexts: list[tuple[str | None, str | None]] = []
"""Trace contexts that handlers received."""


@model(name="plain", version="3", **FLOATS)
def plain(x: Any, ctx: Context) -> Any:
    contexts.append((ctx.traceparent, ctx.tracestate))
    if x[0] < 0:
        raise InvalidInput("negative numbers are not wanted")
    with trace.get_tracer("test").start_as_current_span("own"):
        return x


@model(name="awaited", version="3", **FLOATS)
async def awaited(x: Any, ctx: Context) -> Any:
    contexts.append((ctx.traceparent, ctx.tracestate))
    await asyncio.sleep(0)
    with trace.get_tracer("test").start_as_current_span("own"):
        return x


@model(name="yields", version="3", **FLOATS)
def yields(x: Any, ctx: Context) -> Iterator[Any]:
    contexts.append((ctx.traceparent, ctx.tracestate))
    yield x
    with trace.get_tracer("test").start_as_current_span("own"):
        yield x


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER"):
        monkeypatch.delenv(name, raising=False)
    contexts.clear()
    with collecting() as one:
        yield one


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """The exporter of the handlers' own spans."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def serving(collector: Collector, *models: Model[..., Any], **options: Any) -> Server:
    return Server(*models, http="127.0.0.1:0", grpc="127.0.0.1:0", otlp_endpoint=collector.url, **options)


def infer_rest(server: Server, name: str, value: float = 1, request_id: str = "r-1", headers: Any = SENT) -> int:
    """Sends a request over REST and returns the status."""
    body = json_body({"x": np.full(2, value, np.float32)}, id=request_id)
    sent = {"content-type": "application/json", **headers}
    return post(server.http_url, f"/v2/models/{name}/infer", body, sent).status


def message(name: str, value: float = 1) -> service_pb2.ModelInferRequest:
    content = np.full(2, value, np.float32).tobytes()
    request = service_pb2.ModelInferRequest(model_name=name, id="r-1", raw_input_contents=[content])
    request.inputs.add(name="x", datatype="FP32", shape=[2])
    return request


def infer_grpc(server: Server, name: str) -> int:
    with grpc.insecure_channel(server.grpc_url) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        stub.ModelInfer(message(name), metadata=list(SENT.items()))
    return 0


def infer_grpc_stream(server: Server, name: str) -> int:
    with grpc.insecure_channel(server.grpc_url) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        responses = list(stub.ModelStreamInfer(iter([message(name)]), metadata=list(SENT.items())))
    assert not any(one.error_message for one in responses)
    return 0


def send_generate(server: Server, name: str) -> int:
    body = json.dumps({"id": "r-1", "x": [1, 1]}).encode()
    return post(server.http_url, f"/v2/models/{name}/generate_stream", body, SENT).status


WAYS: dict[str, tuple[Callable[[Server, str], int], Model[..., Any], int]] = {
    "rest": (infer_rest, plain, 200),
    "rest, async": (infer_rest, awaited, 200),
    "grpc": (infer_grpc, plain, 0),
    "grpc stream of one answer": (infer_grpc_stream, plain, 0),
    "grpc stream": (infer_grpc_stream, yields, 0),
    "events": (send_generate, yields, 200),
}


@pytest.mark.parametrize("way", WAYS)
def test_request_spans_join_the_clients_trace(collector: Collector, exporter: InMemorySpanExporter, way: str) -> None:
    call, served, status = WAYS[way]
    exporter.clear()
    with serving(collector, served) as server:
        assert call(server, served.name) == status
    whole, batch = collector.one(f"infer {served.name}"), collector.one(f"batch {served.name}")
    receive, queue, compute = (collector.one(name) for name in ("receive", "queue", "compute"))
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert len({span.span_id for span in collector.spans}) == len(collector.spans)
    assert (whole.parent_span_id.hex(), whole.kind, whole.trace_state) == (
        CALLER,
        Span.SPAN_KIND_SERVER,
        SENT["tracestate"],
    )
    for span in (receive, queue, compute, batch):
        assert span.parent_span_id == whole.span_id, span.name
        assert whole.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
    assert [link.span_id for link in batch.links] == [whole.span_id]
    assert [link.span_id for link in compute.links] == [batch.span_id]
    # Each reads the clock separately, a moment apart.
    near = 2_000_000
    assert receive.end_time_unix_nano <= queue.start_time_unix_nano + near
    assert queue.end_time_unix_nano <= compute.start_time_unix_nano + near
    assert compute.end_time_unix_nano <= whole.end_time_unix_nano + near
    if not served.streams and "stream" not in way:
        encode = collector.one("encode")
        assert encode.parent_span_id == whole.span_id
        assert compute.end_time_unix_nano <= encode.start_time_unix_nano + near
    assert attributes(whole) == {
        "penstock.model": served.name,
        "penstock.version": "3",
        "penstock.protocol": "grpc" if "grpc" in way else "http",
        "penstock.request_id": "r-1",
        "penstock.status": status,
    }
    assert attributes(batch)["penstock.batch.size"] == 1
    assert attributes(batch)["penstock.batch.requests"] == 1
    assert not any(span.status.code for span in collector.spans)
    assert collector.services == {"penstock"}
    assert set(collector.paths) == {"/v1/traces"}
    # The handler runs in the span of its batch.
    assert contexts == [(f"00-{TRACE}-{batch.span_id.hex()}-01", SENT["tracestate"])]
    (own,) = (span for span in exporter.get_finished_spans() if span.name == "own")
    check_child(own, batch)


def check_child(own: ReadableSpan, parent: Span) -> None:
    assert own.context is not None
    assert own.parent is not None
    assert f"{own.context.trace_id:032x}" == TRACE
    assert f"{own.parent.span_id:016x}" == parent.span_id.hex()


def test_handler_in_a_process_runs_in_the_batch_span(collector: Collector) -> None:
    with serving(collector, in_processes.traces) as server:
        body = json_body(X)
        response = post(server.http_url, "/v2/models/traces/infer", body, {"content-type": "application/json", **SENT})
    batch = collector.one("batch traces")
    parameters = response.json()["parameters"]
    assert parameters["context"] == f"00-{TRACE}-{batch.span_id.hex()}-01 {SENT['tracestate']}"
    assert parameters["own"] == f"{TRACE} {batch.span_id.hex()}"


def test_failure_sets_the_span_status(collector: Collector) -> None:
    with serving(collector, plain) as server:
        assert infer_rest(server, "plain", -1) == 400
        assert infer_rest(server, "unknown") == 404
    refused = collector.one("infer plain")
    assert (refused.status.code, refused.status.message) == (
        Status.STATUS_CODE_ERROR,
        "negative numbers are not wanted",
    )
    assert attributes(refused)["error.type"] == "invalid_input"
    assert attributes(refused)["penstock.status"] == 400
    assert collector.one("batch plain").status.code == Status.STATUS_CODE_ERROR
    assert collector.one("compute").status.code == Status.STATUS_CODE_ERROR
    assert attributes(collector.one("infer"))["error.type"] == "not_found"


def test_batch_span_links_all_its_requests(collector: Collector) -> None:
    gate = Gate()

    @model(name="m", inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])], batching=Batching())
    def rows(x: Any) -> Any:
        if len(x) == 1:
            gate.enter()
        return x

    row = json_body({"x": np.ones((1, 1), np.float32)})

    def one(trace_id: str) -> int:
        sent = {"content-type": "application/json", "traceparent": f"00-{trace_id}-{CALLER}-01"}
        return post(server.http_url, "/v2/models/m/infer", row, sent).status

    traces = [f"{number:032x}" for number in (1, 2, 3)]
    with serving(collector, rows) as server:
        futures = at_once([lambda: one(traces[0])])
        gate.await_entered()
        futures += at_once([lambda each=each: one(each) for each in traces[1:]])
        until(lambda: metric_at(server.http_url, "penstock_queue_depth", model="m") == 2)
        gate.open()
        assert [each.result() for each in futures] == [200] * 3
    wholes = {span.trace_id.hex(): span for span in collector.named("infer m", 3)}
    assert sorted(wholes) == traces
    _, shared = collector.named("batch m", 2)
    linked = {(link.trace_id.hex(), link.span_id) for link in shared.links}
    assert linked == {(each, wholes[each].span_id) for each in traces[1:]}
    assert shared.trace_id.hex() in traces[1:]
    assert shared.parent_span_id == wholes[shared.trace_id.hex()].span_id
    assert attributes(shared)["penstock.batch.size"] == 2
    computes = [span for span in collector.named("compute", 3) if span.trace_id.hex() in traces[1:]]
    assert [[link.span_id for link in span.links] for span in computes] == [[shared.span_id]] * 2


@pytest.mark.parametrize(
    ("sampler", "headers", "traced"),
    [
        ("auto", {}, True),
        ("auto", UNSAMPLED, False),
        ("auto", {"traceparent": "broken"}, True),
        ("always_off", SENT, False),
        ("parentbased_always_off", SENT, True),
        ("parentbased_always_off", {}, False),
        ("always_on", UNSAMPLED, True),
        ("traceidratio:0", SENT, False),
        ("parentbased_traceidratio:0", SENT, True),
        ("traceidratio:1.0", {}, True),
    ],
)
def test_sampler_decides_which_requests_are_traced(
    collector: Collector, sampler: str, headers: dict[str, str], traced: bool
) -> None:
    with serving(collector, plain, trace_sampler=sampler) as server:
        assert infer_rest(server, "plain", headers=headers) == 200
    assert [span.name for span in collector.spans if span.name.startswith("infer")] == ["infer plain"] * traced
    ((parent, _),) = contexts
    # An unsampled trace context is passed on unchanged.
    assert (parent is not None and parent.endswith("-01")) if traced else parent == headers.get("traceparent")


def test_ratio_sampler_traces_a_share_of_requests(collector: Collector) -> None:
    with serving(collector, plain, trace_sampler="traceidratio:0.5") as server:
        for _ in range(200):
            assert infer_rest(server, "plain", headers={}) == 200
    assert 50 < sum(span.name == "infer plain" for span in collector.spans) < 150


def test_standard_otel_variables_are_read(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url + "/base/")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20x, b=c")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "front")
    with Server(plain, http="127.0.0.1:0", grpc=None) as server:
        infer_rest(server, "plain")
    collector.one("infer plain")
    assert collector.services == {"front"}
    assert set(collector.paths) == {"/base/v1/traces"}
    assert (collector.headers[0]["authorization"], collector.headers[0]["b"]) == ("Bearer x", "c")


@pytest.mark.parametrize(
    ("environ", "traced"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_tracing_is_off_by_default(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], traced: bool) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert (ServerConfig().tracing is not None) == traced
    assert ServerConfig(otlp_endpoint="off").tracing is None


@pytest.mark.parametrize(
    ("options", "environ", "problem"),
    [
        ({"otlp_endpoint": "ftp://a:1"}, {}, "otlp_endpoint: 'ftp://a:1' is not an address of a collector"),
        ({"otlp_endpoint": "grpc://a:1/v1"}, {}, "otlp_endpoint: 'grpc://a:1/v1' has a path, which gRPC does not use"),
        (
            {"otlp_endpoint": "http://a:1", "otlp_ca": "ca.pem"},
            {},
            "otlp_ca: the connection to the collector has no TLS, expected https:// or grpcs://",
        ),
        (
            {"otlp_endpoint": "https://a:1", "otlp_key": "key.pem"},
            {},
            "otlp_certificate: a certificate needs its key in otlp_key, and a key its certificate",
        ),
        ({"otlp_endpoint": "http://a", "otlp_headers": "=x"}, {}, "otlp_headers: expected NAME=VALUE, separated"),
        ({"otlp_endpoint": "http://a", "otlp_headers": "env:NOT_SET"}, {}, "otlp_headers: the variable 'NOT_SET'"),
        (
            {},
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "grpc://a:1"},
            "OTEL_EXPORTER_OTLP_ENDPOINT: 'grpc://a:1' has a scheme of otlp_endpoint, expected http:// or https://",
        ),
        ({"otlp_endpoint": "a:1"}, {}, "otlp_endpoint: 'a:1' is not an address"),
        ({"otlp_endpoint": "http://a:x"}, {}, "otlp_endpoint: 'http://a:x' is not an address"),
        ({"otlp_endpoint": "http://a", "trace_sampler": "some"}, {}, "trace_sampler: 'some' is not a sampler"),
        ({"otlp_endpoint": "http://a", "trace_sampler": "traceidratio:2"}, {}, "is not a sampler"),
        (
            {},
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: got 'http/json', expected http/protobuf or grpc; or otlp_endpoint=off",
        ),
    ],
)
def test_invalid_tracing_settings_are_rejected(
    monkeypatch: pytest.MonkeyPatch, options: Any, environ: dict[str, str], problem: str
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as raised:
        ServerConfig(**options)
    assert problem in str(raised.value)


def test_missing_collector_loses_only_spans(capfd: pytest.CaptureFixture[str]) -> None:
    with Server(plain, http="127.0.0.1:0", grpc=None, otlp_endpoint="http://127.0.0.1:9") as server:
        assert infer_rest(server, "plain") == 200
        until(lambda: metric_at(server.http_url, "penstock_spans_dropped_total") >= 5)
        assert infer_rest(server, "plain") == 200
    assert capfd.readouterr().err.count("spans do not reach http://127.0.0.1:9") == 1


def test_export_is_retried_when_the_collector_is_busy(collector: Collector) -> None:
    collector.statuses = [503, 429]
    with serving(collector, plain) as server:
        assert infer_rest(server, "plain") == 200
        collector.one("infer plain")
        assert metric_at(server.http_url, "penstock_spans_dropped_total") == 0
    assert len(collector.paths) >= 3


def test_refused_export_is_dropped(collector: Collector) -> None:
    collector.statuses = [400]
    with serving(collector, plain) as server:
        assert infer_rest(server, "plain") == 200
        until(lambda: metric_at(server.http_url, "penstock_spans_dropped_total") >= 5)
        collector.statuses = []


def test_hanging_collector_delays_no_request(collector: Collector) -> None:
    collector.held = threading.Event()
    with serving(collector, plain) as server:
        for _ in range(50):
            assert infer_rest(server, "plain") == 200
        until(lambda: bool(collector.paths), "a message to the collector")
        assert infer_rest(server, "plain") == 200
        collector.held.set()


def test_client_disconnect_is_an_error_span(collector: Collector) -> None:
    gate = Gate()

    @model(name="m", **FLOATS)
    def waits(x: Any) -> Any:
        gate.enter()
        return x

    from http_by_hand import connect

    with serving(collector, waits) as server:
        body = json_body(X)
        connection = connect(server.http_url)
        head = f"POST /v2/models/m/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        gate.await_entered()
        connection.close()
        until(lambda: metric_at(server.http_url, "penstock_in_flight", model="m") == 0)
        gate.open()
    assert attributes(collector.one("infer"))["error.type"] == "cancelled"


def test_trace_context_reaches_the_handler_without_tracing() -> None:
    contexts.clear()
    with Server(plain, http="127.0.0.1:0", grpc=None, otlp_endpoint="off") as server:
        assert infer_rest(server, "plain") == 200
        assert infer_rest(server, "plain", headers={}) == 200
        assert infer(server.http_url, "plain", X).status == 200
    assert contexts == [(SENT["traceparent"], SENT["tracestate"]), (None, None), (None, None)]


def test_exemplars_are_traces_of_sampled_requests() -> None:
    with collecting() as collector, Server(plain, http="127.0.0.1:0", grpc=None, otlp_endpoint=collector.url) as server:
        for headers in (SENT, {"traceparent": f"00-{'f' * 32}-{CALLER}-00"}):
            assert post(server.http_url, "/v2/models/plain/infer", json_body(X), headers).status == 200
        text, without = openmetrics(server.http_url), get(server.http_url, "/metrics").body.decode()
    exemplars = [line for line in text.splitlines() if " # {" in line]
    names = sorted(line.partition("{")[0] for line in exemplars)
    assert names == ["penstock_compute_seconds_bucket", "penstock_request_seconds_bucket"]
    assert all(f' # {{trace_id="{TRACE}"}} ' in line for line in exemplars)
    assert " # {" not in without
    (sample, *_) = (
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.exemplar and sample.name == "penstock_request_seconds_bucket"
    )
    assert sample.exemplar.value <= float(sample.labels["le"])
    assert abs(float(sample.exemplar.timestamp) - time.time()) < 3600


def test_exemplar_of_a_large_response_is_its_trace() -> None:
    with (
        collecting() as collector,
        Server(plain, http="127.0.0.1:0", grpc="127.0.0.1:0", otlp_endpoint=collector.url) as server,
    ):
        large = json_body({"x": np.ones(1 << 16, np.float32)})
        assert post(server.http_url, "/v2/models/plain/infer", large, SENT).status == 200
        until(lambda: "penstock_request_seconds_bucket" in exemplars_of(server), "the exemplar")


def exemplars_of(server: Server) -> str:
    return "\n".join(line for line in openmetrics(server.http_url).splitlines() if f'trace_id="{TRACE}"' in line)
