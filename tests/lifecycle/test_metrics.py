"""The counters of /metrics, which never have a label chosen by a client."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import binary_body, connect, get, infer, metric, metric_at, post
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
    response = get(server.http_url, "/metrics")
    assert response.status == 200
    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    text = response.body.decode()
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
    assert metric(text, "penstock_refused_total") == 100


def test_every_metric_is_described(server: Server) -> None:
    infer(server.http_url, "checked", X)
    text = exposition(server)
    names = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    assert names == set(re.findall(r"^# HELP (\w+) \w+", text, re.MULTILINE))
    assert all(name.startswith("penstock_") for name in names)


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
        if name.startswith("nv_") and not name.endswith("_us")
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
    durations = {name: family.samples for name, family in families.items() if name.endswith("_us")}
    assert len(durations) == 5
    assert all(sample.labels == {"model": "checked", "version": "3"} for (sample,) in durations.values())
    whole = durations["nv_inference_request_duration_us"][0].value
    parts = sum(sample.value for name, (sample,) in durations.items() if "request" not in name)
    assert 0 < parts <= whole <= parts + 2 * len(durations)


def test_triton_metric_names_are_off_by_default(server: Server) -> None:
    assert "nv_" not in exposition(server)
