"""Metrics of streams: number and rate of the responses, of every protocol, caller and kind of handler."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tritonclient.grpc import service_pb2, service_pb2_grpc

import penstock
from http_by_hand import connect, infer, metric, metric_at, openmetrics, post
from models import token_models
from penstock import Context, Server, model
from waiting import Gate, until

FLOATS = token_models.FLOATS
RESPONSES, RATE = "penstock_stream_responses", "penstock_stream_responses_per_second"
FIRST, GAP = "penstock_first_response_seconds", "penstock_response_gap_seconds"


def body(count: int) -> bytes:
    return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [count]}]}).encode()


@model(name="counts", **FLOATS)
def counts(x: Any) -> Iterator[Any]:
    for _ in range(int(x[0])):
        yield x


@model(name="counts", **FLOATS)
async def awaits(x: Any) -> AsyncIterator[Any]:
    for _ in range(int(x[0])):
        yield x


def by_events(server: Server, count: int) -> int:
    response = post(server.http_url, "/v2/models/counts/infer_stream", body(count))
    assert response.status == 200
    return response.body.count(b"data:")


def by_generate(server: Server, count: int) -> int:
    sent = json.dumps({"x": count}).encode()
    return post(server.http_url, "/v2/models/counts/generate_stream", sent).body.count(b"data:")


def by_grpc(server: Server, count: int) -> int:
    content = np.full(1, count, np.float32).tobytes()
    request = service_pb2.ModelInferRequest(model_name="counts", raw_input_contents=[content])
    request.inputs.add(name="x", datatype="FP32", shape=[1])
    with grpc.insecure_channel(server.grpc_url) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return len(list(stub.ModelStreamInfer(iter([request]))))


@model(name="reads", routes=["POST /reads"])
async def reads(request: penstock.Request, ctx: Context) -> Any:
    chunks = [chunk async for chunk in ctx.models["counts"].stream(x=np.full(1, int(request.body), np.float32))]
    return penstock.Response(str(len(chunks)).encode())


@model(name="blocks", routes=["POST /blocks"])
def blocks(request: penstock.Request, ctx: Context) -> Any:
    chunks = list(ctx.models["counts"].stream(x=np.full(1, int(request.body), np.float32)))
    return penstock.Response(str(len(chunks)).encode())


def by_call(path: str) -> Callable[[Server, int], int]:
    return lambda server, count: int(post(server.http_url, path, str(count).encode()).body)


WAYS = {
    "events": by_events,
    "generate_stream": by_generate,
    "grpc": by_grpc,
    "async call": by_call("/reads"),
    "plain call": by_call("/blocks"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("handler", ["thread", "loop"])
def test_every_stream_counts_with_its_responses(way: str, handler: str) -> None:
    streams = {"thread": counts, "loop": awaits}[handler]
    with Server(streams, reads, blocks, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        lengths = (1, 4, 70)
        assert [WAYS[way](server, count) for count in lengths] == [*lengths]
        until(lambda: metric_at(server.http_url, f"{RESPONSES}_count", model="counts") == 3)
        text = openmetrics(server.http_url)
    assert list(text_string_to_metric_families(text))
    assert metric(text, f"{RESPONSES}_sum", model="counts") == 75
    below = [
        metric(text, f"{RESPONSES}_bucket", model="counts", le=le) for le in ("1.0", "2.0", "5.0", "50.0", "100.0")
    ]
    assert below == [1, 1, 2, 2, 3]
    assert metric(text, f"{RATE}_count", model="counts") == 2
    assert metric(text, f"{RATE}_sum", model="counts") > 0
    assert metric(text, f"{FIRST}_count", model="counts") == 3
    assert metric(text, f"{GAP}_count", model="counts") == 72


def test_stream_of_a_process_is_counted() -> None:
    with Server(token_models.served("yields", True), http="127.0.0.1:0", grpc=None) as server:
        assert post(server.http_url, token_models.path("yields"), body(3)).body.count(b"data:") == 3
        text = openmetrics(server.http_url)
    assert (metric(text, f"{RESPONSES}_count"), metric(text, f"{RESPONSES}_sum")) == (1, 3)


def test_stream_without_responses_counts_as_none() -> None:
    with Server(counts, http="127.0.0.1:0", grpc=None) as server:
        assert by_events(server, 0) == 0
        text = openmetrics(server.http_url)
    assert (metric(text, f"{RESPONSES}_count"), metric(text, f"{RESPONSES}_sum")) == (1, 0)
    assert metric(text, f"{RATE}_count") == metric(text, f"{FIRST}_count") == 0


@pytest.mark.parametrize(("before", "counted"), [(0, 0), (2, 1)])
def test_failed_stream_counts_with_what_it_gave(before: int, counted: int) -> None:
    @model(**FLOATS)
    def fails(x: Any) -> Iterator[Any]:
        for _ in range(before):
            yield x
        raise RuntimeError("broken")

    with Server(fails, http="127.0.0.1:0", grpc=None) as server:
        post(server.http_url, "/v2/models/fails/infer_stream", body(1))
        text = openmetrics(server.http_url)
    assert (metric(text, f"{RESPONSES}_count"), metric(text, f"{RESPONSES}_sum")) == (counted, before)


def test_stream_that_its_client_left_is_counted() -> None:
    gate = Gate()

    @model(**FLOATS)
    def waits(x: Any, ctx: Context) -> Iterator[Any]:
        yield x
        gate.enter()
        until(lambda: ctx.cancelled)
        yield x

    with Server(waits, http="127.0.0.1:0", grpc=None) as server:
        with connect(server.http_url) as client:
            sent = body(1)
            head = (
                f"POST /v2/models/waits/infer_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(sent)}\r\n\r\n"
            )
            client.sendall(head.encode() + sent)
            assert b"200 OK" in client.recv(1 << 16)
            gate.await_entered()
        gate.open()
        until(lambda: metric_at(server.http_url, f"{RESPONSES}_count", model="waits") == 1)
        assert metric_at(server.http_url, f"{RESPONSES}_sum", model="waits") == 1


def test_call_that_is_closed_early_is_counted() -> None:
    @model(name="closes", routes=["POST /closes"])
    def closes(request: penstock.Request, ctx: Context) -> Any:
        chunks = ctx.models["counts"].stream(x=np.full(1, 1000, np.float32))
        next(chunks)
        chunks.close()
        return penstock.Response(b"done")

    with Server(counts, closes, http="127.0.0.1:0", grpc=None) as server:
        assert post(server.http_url, "/closes", b"").status == 200
        text = openmetrics(server.http_url)
    assert metric(text, f"{RESPONSES}_count", model="counts") == 1
    assert 1 <= metric(text, f"{RESPONSES}_sum", model="counts") < 1000


def test_model_with_one_response_has_no_series_of_streams() -> None:
    with Server(token_models.served("plain"), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        assert infer(server.http_url, "plain", {"x": np.ones(1, np.float32)}).status == 200
        assert post(server.http_url, "/v2/models/plain/infer_stream", body(1)).body.count(b"data:") == 1
        text = openmetrics(server.http_url)
    assert f"{RESPONSES}_count" not in text
    assert f"{FIRST}_count" not in text


def test_triton_has_its_histogram_of_first_responses() -> None:
    name = "nv_inference_first_response_histogram_ms"
    with Server(counts, http="127.0.0.1:0", grpc=None, dialect="triton") as server:
        for count in (0, 1, 2):
            by_events(server, count)
        text = openmetrics(server.http_url)
    (family,) = (one for one in text_string_to_metric_families(text) if one.name == name)
    assert family.type == "histogram"
    assert all(one.labels.items() >= {"model": "counts", "version": "1"}.items() for one in family.samples)
    values = {one.labels.get("le", one.name): one.value for one in family.samples}
    assert [*values] == [f"{name}_count", f"{name}_sum", "100.0", "500.0", "2000.0", "5000.0", "+Inf"]
    assert values["+Inf"] == values[f"{name}_count"] == 2
    seconds = metric(text, f"{FIRST}_sum", model="counts")
    assert values[f"{name}_sum"] == pytest.approx(seconds * 1e3)
