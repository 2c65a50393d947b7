"""`ctx.metrics`: counters, gauges and histograms of handlers in the exposition of /metrics."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from http_by_hand import infer, metric, openmetrics
from models import in_processes
from penstock import Batching, Context, Model, Server, SignatureError, Tensor, model
from penstock.testing import Client

X = {"x": np.ones(2, np.float32)}
FLOATS: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}


def recording_model(record: Callable[[Context], Any], name: str = "m", **options: Any) -> Model[..., Any]:
    @model(name=name, **FLOATS, **options)
    def handler(x: Any, ctx: Context) -> Any:
        record(ctx)
        return x

    return handler


def families(text: str) -> dict[str, Any]:
    """Metric families of an exposition, parsed by a strict OpenMetrics parser."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def scrape(client: Client) -> dict[str, Any]:
    response = client.get("/metrics", headers={"accept": "application/openmetrics-text"})
    return families(response.body.decode())


def record_all(ctx: Context) -> None:
    ctx.metrics.counter("tokens", 12, kind="prompt")
    ctx.metrics.counter("tokens_total", kind="prompt")
    ctx.metrics.gauge("cache_entries", -2.5, shard=3, warm=True)
    ctx.metrics.observe("seen_seconds", 0.02)
    ctx.metrics.observe("detections", 7, label='a "quoted" \\ one\n')


def check_all(families_by_name: dict[str, Any], name: str, calls: int) -> None:
    """Check the exposition after `calls` runs of `record_all`."""
    model_labels = {"model": name, "version": "1"}

    def value(family: str, sample: str, **labels: str) -> float:
        samples = [
            entry
            for entry in families_by_name[family].samples
            if (entry.name, entry.labels) == (sample, {**model_labels, **labels})
        ]
        assert len(samples) == 1, families_by_name[family].samples
        return float(samples[0].value)

    assert {
        family: families_by_name[family].type for family in ("tokens", "cache_entries", "seen_seconds", "detections")
    } == {
        "tokens": "counter",
        "cache_entries": "gauge",
        "seen_seconds": "histogram",
        "detections": "histogram",
    }
    assert value("tokens", "tokens_total", kind="prompt") == 13 * calls
    assert value("cache_entries", "cache_entries", shard="3", warm="True") == -2.5
    assert value("seen_seconds", "seen_seconds_count") == calls
    assert value("seen_seconds", "seen_seconds_sum") == pytest.approx(0.02 * calls)
    bounds = [
        entry.labels["le"] for entry in families_by_name["seen_seconds"].samples if entry.name.endswith("_bucket")
    ]
    assert [float(bound) for bound in bounds] == [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, math.inf]
    assert value("seen_seconds", "seen_seconds_bucket", le="0.01") == 0
    assert value("seen_seconds", "seen_seconds_bucket", le="0.025") == calls
    label = 'a "quoted" \\ one\n'
    assert value("detections", "detections_bucket", le="5.0", label=label) == 0
    assert value("detections", "detections_bucket", le="10.0", label=label) == calls
    assert value("detections", "detections_bucket", le="+Inf", label=label) == calls


BUCKETS = {"detections": [1, 5, 10.0]}


@model(name="awaited", buckets=BUCKETS, **FLOATS)
async def awaited(x: Any, ctx: Context) -> Any:
    record_all(ctx)
    return x


@model(name="yields", buckets=BUCKETS, **FLOATS)
def yields(x: Any, ctx: Context) -> Iterator[Any]:
    record_all(ctx)
    yield x


@pytest.mark.parametrize(
    "served",
    [recording_model(record_all, "called", buckets=BUCKETS), awaited, yields, in_processes.records_metrics],
    ids=["thread", "async", "stream", "process"],
)
def test_metrics_are_exposed_for_every_kind_of_handler(served: Model[..., Any]) -> None:
    with Client(served) as client:
        for _ in range(3):
            if served.streams:
                assert client.post(f"/v2/models/{served.name}/generate_stream", b'{"x": [1]}').status == 200
            else:
                client.infer(served.name, X)
        check_all(scrape(client), served.name, 3)


def test_exposition_is_valid_without_handler_metrics() -> None:
    with Client(recording_model(lambda _: None)) as client:
        client.infer("m", X)
        assert all(name.startswith(("penstock_", "process_")) for name in scrape(client))


def test_models_may_share_a_metric_name() -> None:
    both = [recording_model(lambda ctx: ctx.metrics.counter("calls"), name) for name in ("a", "b")]
    with Client(*both) as client:
        for name in ("a", "b", "b"):
            client.infer(name, X)
        samples = scrape(client)["calls"].samples
    assert {entry.labels["model"]: entry.value for entry in samples} == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (lambda ctx: ctx.metrics.counter("calls", -1), "counter 'calls' can only grow, got -1"),
        (lambda ctx: ctx.metrics.counter("calls", math.nan), "counter 'calls' can only grow, got NaN"),
        (lambda ctx: ctx.metrics.observe("size", -0.5), "histogram 'size' takes numbers of 0 or more, got -0.5"),
        (lambda ctx: ctx.metrics.observe("size", [1, -0.5]), "histogram 'size' takes numbers of 0 or more, got -0.5"),
        (
            lambda ctx: ctx.metrics.gauge("a b", 1),
            "metric name 'a b' is wrong, expected letters, digits and underscores, not beginning with a digit, "
            "at most 128",
        ),
        (
            lambda ctx: ctx.metrics.gauge("penstock_x", 1),
            "metric name 'penstock_x' is wrong: those that begin with 'penstock_' are the server's",
        ),
        (
            lambda ctx: ctx.metrics.counter("calls", model="other"),
            "label 'model' of metric 'calls' is wrong: it is one of the server's own",
        ),
        (
            lambda ctx: ctx.metrics.counter("calls", **{"a-b": "c"}),
            "label 'a-b' of metric 'calls' is wrong, expected letters, digits and underscores, not beginning with "
            "a digit, at most 128",
        ),
        (
            lambda ctx: ctx.metrics.counter("calls", **{f"label{index}": "" for index in range(17)}),
            "metric 'calls' has 17 labels, expected at most 16",
        ),
        (
            lambda ctx: [ctx.metrics.counter("calls"), ctx.metrics.gauge("calls", 1)],
            "metric 'calls' is a counter, so it cannot be a gauge",
        ),
        (
            lambda ctx: [ctx.metrics.counter("calls"), ctx.metrics.gauge("calls_total", 1)],
            "gauge 'calls_total' and counter 'calls' would show one name twice: give one of them another",
        ),
    ],
)
def test_invalid_metrics_are_rejected(record: Callable[[Context], Any], problem: str) -> None:
    messages: list[str] = []

    def record_and_catch(ctx: Context) -> None:
        with pytest.raises(ValueError, match=r".") as raised:
            record(ctx)
        messages.append(str(raised.value))

    with Client(recording_model(record_and_catch)) as client:
        client.infer("m", X)
        scrape(client)
    assert messages == [problem]


def test_label_values_must_be_plain_values() -> None:
    def record_and_catch(ctx: Context) -> None:
        with pytest.raises(TypeError, match="label 'kind' of metric 'calls' is a str, int, float or bool, got list"):
            ctx.metrics.counter("calls", kind=[])  # type: ignore[arg-type]

    with Client(recording_model(record_and_catch)) as client:
        client.infer("m", X)


def test_series_limit_drops_and_logs_once(caplog: pytest.LogCaptureFixture) -> None:
    def record_and_catch(ctx: Context) -> None:
        for index in range(1100):
            ctx.metrics.counter("calls", user=index)
        ctx.counter("late")

    with caplog.at_level(logging.WARNING, "penstock.m"), Client(recording_model(record_and_catch)) as client:
        for _ in range(2):
            client.infer("m", X)
        samples = scrape(client)["calls"].samples
        assert "penstock_custom" not in scrape(client)
    assert [entry.value for entry in samples] == [2] * 1000
    lines = [record.getMessage() for record in caplog.records if record.name == "penstock.m"]
    assert lines == [
        "model 'm' version '1': its handlers have the maximum of 1000 series of metrics: further series are dropped"
    ]


def test_series_limit_applies_to_processes(capfd: pytest.CaptureFixture[str]) -> None:
    with Server(in_processes.too_many_series, http="127.0.0.1:0", grpc=None) as server:
        for _ in range(2):
            assert infer(server.http_url, "too_many_series", X).status == 200
        samples = families(openmetrics(server.http_url))["hoarded"].samples
    assert len(samples) == 1000
    assert capfd.readouterr().err.count("the maximum of 1000 series of metrics") == 1


@pytest.mark.parametrize("bounds", [[], [1, 1], [2, 1], [-1, 1], "abc", 7, [math.nan], range(101)])
def test_buckets_must_be_ascending_numbers(bounds: Any) -> None:
    with pytest.raises(SignatureError) as raised:
        recording_model(print, buckets={"h": bounds})
    rule = "model 'm': buckets of 'h' must be at most 100 ascending numbers of 0 or more, not "
    assert str(raised.value) == rule + repr(bounds)


@pytest.mark.parametrize(
    ("buckets", "problem"), [([1], "must be a dict of names and bounds"), ({"a b": [1]}, "the name of a histogram")]
)
def test_buckets_must_be_a_dict_by_histogram_name(buckets: Any, problem: str) -> None:
    with pytest.raises(SignatureError, match=problem):
        recording_model(print, buckets=buckets)


def test_last_bucket_bound_may_be_infinite() -> None:
    served = recording_model(lambda ctx: ctx.metrics.observe("h", 2), buckets={"h": (1, math.inf)})
    with Client(served) as client:
        client.infer("m", X)
        text = client.get("/metrics").body.decode()
    assert metric(text, "h_bucket", le="1.0") == 0
    assert metric(text, "h_bucket", le="+Inf") == 1
    assert text.count("h_bucket{") == 2


def test_shared_batch_is_observed_once() -> None:
    @model(name="m", inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])], batching=Batching())
    def handler(x: Any, ctx: Context) -> Any:
        ctx.metrics.observe("rows", len(x))
        return x

    with Client(handler) as client:
        client.infer("m", {"x": np.ones((3, 2), np.float32)})
        assert metric(client.get("/metrics").body.decode(), "rows_sum") == 3
