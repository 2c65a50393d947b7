"""The counters of /metrics, which never have a label chosen by a client."""

from __future__ import annotations

import platform
import re
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from prometheus_client import parser as prometheus_text
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tritonclient.grpc import service_pb2, service_pb2_grpc

import penstock
from http_by_hand import (
    Connection,
    binary_body,
    connect,
    get,
    infer,
    metric,
    metric_at,
    openmetrics,
    post,
    read_response,
)
from penstock import Batching, Context, InvalidInput, Server, Tensor, model
from waiting import Gate, at_once, until

X = {"x": np.ones((3, 2), np.float32)}
FLOATS = {"inputs": [Tensor("x", np.float32, [2])], "outputs": [Tensor("y", np.float32, [2])]}


@model(**FLOATS, batching=Batching(max_size=8), version="3")
def checked(x: Any, ctx: Context) -> Any:
    if x[0, 0] == 0:
        raise InvalidInput("zeros are not wanted")
    if x[0, 0] < 0:
        raise RuntimeError("broken")
    ctx.counter("rows_seen", len(x))
    return x


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(checked, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


def exposition(server: Server) -> str:
    text = openmetrics(server.http_url)
    assert text.endswith("# EOF\n")
    return text


def infer_grpc(server: Server, first: float = 1) -> None:
    with grpc.insecure_channel(server.grpc_url) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        content = np.full((3, 2), first, np.float32).tobytes()
        request = service_pb2.ModelInferRequest(model_name="checked", raw_input_contents=[content])
        request.inputs.add(name="x", datatype="FP32", shape=[3, 2])
        stub.ModelInfer(request)


def test_requests_are_counted_by_model_version_protocol_and_outcome(server: Server) -> None:
    url = server.http_url
    for first, count in ((1, 3), (0, 2), (-1, 1)):
        for _ in range(count):
            infer(url, "checked", {"x": np.full((1, 2), first, np.float32)})
    post(url, "/v2/models/checked/infer", b"{")
    infer_grpc(server)
    with pytest.raises(grpc.RpcError):
        infer_grpc(server, 0)
    text = exposition(server)
    labels = {"model": "checked", "version": "3"}
    counted = {
        (protocol, outcome): metric(text, "penstock_requests_total", **labels, protocol=protocol, outcome=outcome)
        for protocol in ("http", "grpc", "inprocess")
        for outcome in ("ok", "invalid_input", "handler")
    }
    assert {key: count for key, count in counted.items() if count} == {
        ("http", "ok"): 3,
        ("http", "invalid_input"): 3,
        ("http", "handler"): 1,
        ("grpc", "ok"): 1,
        ("grpc", "invalid_input"): 1,
    }


def test_durations_and_sizes_are_histograms(server: Server) -> None:
    for _ in range(4):
        infer(server.http_url, "checked", X)
    text = exposition(server)
    labels = {"model": "checked", "version": "3"}
    for name in ("queue_seconds", "batch_wait_seconds", "compute_seconds", "encode_seconds"):
        assert metric(text, f"penstock_{name}_count", **labels) == 4, name
        assert 0 <= metric(text, f"penstock_{name}_sum", **labels) < 60, name
        assert metric(text, f"penstock_{name}_bucket", **labels, le="+Inf") == 4, name
        assert f"# TYPE penstock_{name} histogram" in text
    assert metric(text, "penstock_batch_size_count", **labels) == 4
    assert metric(text, "penstock_batch_size_sum", **labels) == 12
    assert metric(text, "penstock_batch_size_bucket", **labels, le="2.0") == 0
    assert metric(text, "penstock_batch_size_bucket", **labels, le="4.0") == 4
    assert metric(text, "penstock_batches_total", **labels) == 4


def test_grpc_responses_are_timed_like_rest_responses(server: Server) -> None:
    infer_grpc(server)
    text = exposition(server)
    for name in ("queue_seconds", "batch_wait_seconds", "compute_seconds", "encode_seconds", "batch_size"):
        assert metric(text, f"penstock_{name}_count", model="checked") == 1, name


def test_successful_requests_are_timed_end_to_end(server: Server) -> None:
    infer(server.http_url, "checked", X)
    infer(server.http_url, "checked", {"x": np.full((1, 2), 0, np.float32)})
    infer(server.http_url, "unknown", X)
    infer_grpc(server)
    with pytest.raises(grpc.RpcError):
        infer_grpc(server, -1)
    text = exposition(server)
    labels = {"model": "checked", "version": "3"}
    times = {protocol: dict(labels, protocol=protocol) for protocol in ("http", "grpc", "inprocess")}
    counted = [metric(text, "penstock_request_seconds_count", **one) for one in times.values()]
    assert counted == [1, 1, 0]
    parts = metric(text, "penstock_encode_seconds_sum", **labels)
    assert metric(text, "penstock_request_seconds_sum", **labels) > parts > 0
    bounds = re.findall(
        r'penstock_request_seconds_bucket\{le="([^"]+)",model="checked",version="3",protocol="http"', text
    )
    listed = "0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.075 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 30.0 60.0 +Inf"
    assert bounds == listed.split()


def test_time_of_a_large_response_ends_when_its_reader_has_it() -> None:
    @model(inputs=[Tensor("n", np.int64, [1])], outputs=[Tensor("y", np.float32, [-1])])
    def many(n: Any) -> Any:
        return np.zeros(int(n[0]), np.float32)

    with Server(many, http="127.0.0.1:0", grpc=None) as server:
        # More than the buffers of both sockets hold.
        content, headers = binary_body({"n": np.array([1 << 23])})
        with connect(server.http_url) as reader:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = f"POST /v2/models/many/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n"
            reader.sendall(f"{head}{lines}\r\n".encode() + content)
            until(lambda: metric_at(server.http_url, "penstock_requests_total", model="many", outcome="ok") == 1)
            assert metric_at(server.http_url, "penstock_request_seconds_count", model="many") == 0
            assert read_response(reader).status == 200
        until(lambda: metric_at(server.http_url, "penstock_request_seconds_count", model="many") == 1)


def test_responses_of_streams_are_timed() -> None:
    @model(**FLOATS)
    def yields(x: Any) -> Iterator[Any]:
        yield x
        time.sleep(0.05)
        yield x
        yield x

    with Server(yields, checked, http="127.0.0.1:0", grpc=None) as server:
        body = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}'
        assert post(server.http_url, "/v2/models/yields/infer_stream", body).body.count(b"data:") == 3
        infer(server.http_url, "checked", X)
        text = exposition(server)
    assert metric(text, "penstock_first_response_seconds_count", model="yields") == 1
    assert metric(text, "penstock_response_gap_seconds_count", model="yields") == 2
    assert metric(text, "penstock_response_gap_seconds_sum", model="yields") >= 0.05
    assert metric(text, "penstock_stream_responses_sum", model="yields") == 3
    assert metric(text, "penstock_stream_responses_per_second_count", model="yields") == 1
    assert 0 < metric(text, "penstock_stream_responses_per_second_sum", model="yields") <= 40
    assert metric(text, "penstock_request_seconds_count", model="yields", protocol="http") == 1
    assert metric(text, "penstock_request_seconds_sum", model="yields") >= 0.05
    assert 'penstock_first_response_seconds_count{model="checked"' not in text, "a model without streams has no series"


def test_calls_between_models_are_timed() -> None:
    @model(**FLOATS)
    def plain(x: Any) -> Any:
        return x

    @model(**FLOATS)
    def outer(x: Any, ctx: Context) -> Any:
        return ctx.models["plain"](x=x)

    with Server(outer, plain, http="127.0.0.1:0", grpc=None) as server:
        assert infer(server.http_url, "outer", {"x": np.ones(2, np.float32)}).status == 200
        count = metric_at(server.http_url, "penstock_request_seconds_count", model="plain", protocol="inprocess")
    assert count == 1


def test_readiness_is_a_gauge_of_each_version(server: Server) -> None:
    labels = {"model": "checked", "version": "3"}
    assert 'penstock_ready{model="checked",version="3"} 1\n' in exposition(server)
    server.set_ready("checked", False)
    assert 'penstock_ready{model="checked",version="3"} 0\n' in exposition(server)
    server.set_ready("checked", True)
    assert metric(exposition(server), "penstock_ready", **labels) == 1


def test_refusals_by_access_rules_are_counted() -> None:
    with Server(checked, http="127.0.0.1:0", grpc="127.0.0.1:0", api_key="secret") as server:
        assert infer(server.http_url, "checked", X).status in {401, 403}
        assert get(server.http_url, "/v2/models/checked").status in {401, 403}
        with pytest.raises(grpc.RpcError):
            infer_grpc(server)
        with Connection(server.http_url) as connection:
            response = connection.send_request("GET", "/metrics", headers={"Authorization": "Bearer secret"})
    assert metric(response.body.decode(), "penstock_refused_total") == 3
    reasons = [line for line in response.body.decode().splitlines() if re.match(r"penstock_refused_total.* 3$", line)]
    assert len(reasons) == 1, "all three for one reason"


def test_build_and_process_are_described(server: Server) -> None:
    text = exposition(server)
    (build,) = re.findall(r"^penstock_build_info\{(.*)\} 1$", text, re.MULTILINE)
    labels = dict(re.findall(r'(\w+)="([^"]*)"', build))
    assert labels["version"] == penstock.__version__
    assert labels["python"] == platform.python_version()
    assert labels["gil"] == ("on" if getattr(sys, "_is_gil_enabled", lambda: True)() else "off")
    assert re.fullmatch(r"1\.\d+\.\d+.*", labels["rustc"])
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert largest / 100 < metric(text, "process_resident_memory_bytes") <= largest
    assert metric(text, "process_virtual_memory_bytes") > metric(text, "process_resident_memory_bytes")
    assert metric(text, "process_start_time_seconds") <= time.time() + 1
    assert metric(text, "process_start_time_seconds") > time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - 1
    assert 0 < metric(text, "process_cpu_seconds_total") <= time.process_time() + 1
    assert 3 < metric(text, "process_open_fds") < metric(text, "process_max_fds")
    assert metric(text, "penstock_body_limit_bytes") > 1 << 20


def test_gauges_follow_the_requests() -> None:
    gate = Gate()

    @model(**FLOATS, batching=Batching(max_size=3))
    def held(x: Any) -> Any:
        gate.enter()
        return x

    with Server(held, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        futures = at_once([lambda: infer(url, "held", X)] * 4)
        gate.await_entered()
        until(lambda: metric_at(url, "penstock_queue_depth", model="held") == 3)
        assert metric_at(url, "penstock_in_flight", model="held") == 4
        assert metric_at(url, "penstock_connections") == 5
        gate.open()
        assert {future.result().status for future in futures} == {200}
        until(lambda: metric_at(url, "penstock_connections") == 1)
        assert metric_at(url, "penstock_queue_depth", model="held") == 0
        assert metric_at(url, "penstock_in_flight", model="held") == 0
        assert metric_at(url, "penstock_queue_seconds_count", model="held") == 4


def test_sleep_is_not_counted_as_gil_time() -> None:
    @model(**FLOATS)
    def sleeps(x: Any) -> Any:
        time.sleep(0.5)
        return x

    @model(**FLOATS)
    def computes(x: Any) -> Any:
        until_ = time.thread_time() + 0.3
        while time.thread_time() < until_:
            pass
        return x

    with Server(sleeps, computes, http="127.0.0.1:0", grpc=None) as server:
        for name in ("sleeps", "computes"):
            assert infer(server.http_url, name, {"x": np.ones(2, np.float32)}).status == 200
        text = exposition(server)

    def seconds(kind: str, name: str) -> float:
        return metric(text, f"penstock_{kind}_seconds_total", model=name)

    assert seconds("handler", "sleeps") >= 0.5
    assert seconds("gil_held", "sleeps") < 0.1
    assert seconds("handler", "computes") >= 0.3
    assert seconds("gil_held", "computes") >= 0.29
    for name in ("sleeps", "computes"):
        assert 0 < seconds("boundary", name) < 0.1
        assert metric(text, "penstock_compute_seconds_sum", model=name) == pytest.approx(seconds("handler", name))


def test_handler_counter_is_exported(server: Server) -> None:
    for _ in range(2):
        infer(server.http_url, "checked", X)
    assert metric(exposition(server), "penstock_custom_total", model="checked", version="3", name="rows_seen") == 6


def test_clients_cannot_create_series(server: Server) -> None:
    infer(server.http_url, "checked", X)

    def series(text: str) -> set[str]:
        return {line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")}

    before = series(exposition(server))
    for index in range(50):
        infer(server.http_url, f"unknown-{index}", X)
        infer(server.http_url, "checked/versions/9" + str(index), X)
        get(server.http_url, f"/nothing/{index}")
        infer(server.http_url, "checked", X, id=f"id-{index}")
    text = exposition(server)
    assert series(text) == before
    assert metric(text, "penstock_refused_total", reason="not_found") == 100
    assert metric(text, "penstock_refused_total") == 100


def test_every_metric_is_described(server: Server) -> None:
    infer(server.http_url, "checked", X)
    text = exposition(server)
    names = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    assert names == set(re.findall(r"^# HELP (\w+) \w+", text, re.MULTILINE))
    assert all(name.startswith(("penstock_", "process_")) for name in names)


def test_rows_computed_for_abandoned_requests_count_as_wasted() -> None:
    gate = Gate()

    @model(**FLOATS, batching=Batching(max_size=4, max_delay=60))
    def m(x: Any, ctx: Context) -> Any:
        gate.enter()
        (leaver,) = (request for request in ctx.requests if request.rows == 1)
        until(lambda: leaver.cancelled)
        return x

    with Server(m, http="127.0.0.1:0", grpc=None) as server:
        url, body = server.http_url, binary_body({"x": X["x"][:1]})
        (stays,) = at_once([lambda: infer(url, "m", X)])
        assert metric_at(url, "penstock_wasted_seconds_total", model="m") == 0
        lines = "".join(f"{name}: {value}\r\n" for name, value in body[1].items())
        head = f"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body[0])}\r\n{lines}\r\n"
        leaver = connect(url)
        leaver.sendall(head.encode() + body[0])
        gate.await_entered()
        gate.open()
        leaver.close()
        assert stays.result().status == 200
        spent = metric_at(url, "penstock_handler_seconds_total", model="m")
        assert metric_at(url, "penstock_wasted_seconds_total", model="m") == pytest.approx(spent / 4, rel=1e-2)


def test_triton_metric_names_are_exported_when_enabled() -> None:
    with Server(checked, http="127.0.0.1:0", grpc=None, dialect="triton") as server:
        url = server.http_url
        for first, count in ((1, 2), (0, 1), (-1, 1)):
            for _ in range(count):
                infer(url, "checked", {"x": np.full((3, 2), first, np.float32)})
        post(url, "/v2/models/checked/infer", b"{")
        text = exposition(server)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = {
        sample.labels.get("reason", name): sample.value
        for name, family in families.items()
        if name.startswith("nv_") and not name.endswith(("_us", "_ms"))
        for sample in family.samples
    }
    assert samples == {
        "nv_inference_request_success": 2,
        "REJECTED": 0,
        "CANCELED": 0,
        "BACKEND": 1,
        "OTHER": 0,
        "nv_inference_count": 6,
        "nv_inference_exec_count": 4,
        "nv_inference_pending_request_count": 0,
        "nv_cache_num_hits_per_model": 0,
        "nv_cache_num_misses_per_model": 0,
    }
    assert families["nv_inference_first_response_histogram_ms"].samples == [], "checked does not stream"
    durations = {name: family.samples for name, family in families.items() if name.endswith("_us")}
    assert len(durations) == 5
    assert all(sample.labels == {"model": "checked", "version": "3"} for (sample,) in durations.values())
    whole = durations["nv_inference_request_duration_us"][0].value
    parts = sum(sample.value for name, (sample,) in durations.items() if "request" not in name)
    assert 0 < parts <= whole <= parts + 2 * len(durations)


def test_triton_metric_names_are_off_by_default(server: Server) -> None:
    assert "nv_" not in exposition(server)


OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, TEXT),
        ("*/*", TEXT),
        ("text/plain;version=0.0.4;q=1,*/*;q=0.1", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPENMETRICS),
    ],
)
def test_format_is_the_one_that_the_client_accepts(server: Server, accept: str | None, media_type: str) -> None:
    infer(server.http_url, "checked", X)
    with Connection(server.http_url) as connection:
        response = connection.send_request("GET", "/metrics", headers={"accept": accept} if accept else {})
    assert response.headers["content-type"] == media_type
    assert response.headers["vary"] == "accept"
    text = response.body.decode()
    assert text.endswith("# EOF\n") is (media_type == OPENMETRICS)
    assert metric(text, "penstock_requests_total", model="checked", outcome="ok") == 1


def test_both_formats_have_the_same_samples(server: Server) -> None:
    infer(server.http_url, "checked", X)
    infer(server.http_url, "unknown", X)
    text = get(server.http_url, "/metrics").body.decode()
    plain = {family.name: family for family in prometheus_text.text_string_to_metric_families(text)}
    open_ = {family.name: family for family in text_string_to_metric_families(openmetrics(server.http_url))}

    def series(families: Any) -> dict[str, str]:
        """The type of each sample."""
        return {
            f"{sample.name}{sorted(sample.labels.items())}": {"info": "gauge"}.get(family.type, family.type)
            for family in families.values()
            for sample in family.samples
        }

    assert series(plain) == series(open_)
    assert "# TYPE penstock_requests_total counter\n" in text
    assert "# HELP penstock_requests_total Requests by model, protocol and outcome.\n" in text
    assert "# TYPE penstock_build_info gauge\n" in text
