"""`ctx.metrics`: what handlers count, set and observe, as /metrics shows it to a scraper."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from http_by_hand import get, infer, metric
from models import in_processes
from penstock import Batching, Context, Model, Server, SignatureError, Tensor, model
from penstock.testing import Client

X = {"x": np.ones(2, np.float32)}
FLOATS: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}


def keeping(keep: Callable[[Context], Any], name: str = "m", **options: Any) -> Model[..., Any]:
    @model(name=name, **FLOATS, **options)
    def handler(x: Any, ctx: Context) -> Any:
        keep(ctx)
        return x

    return handler


def families(text: str) -> dict[str, Any]:
    """What a strict reader of OpenMetrics makes of an exposition."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def scraped(client: Client) -> dict[str, Any]:
    return families(client.get("/metrics").body.decode())


def keep_all(ctx: Context) -> None:
    ctx.metrics.counter("tokens", 12, kind="prompt")
    ctx.metrics.counter("tokens_total", kind="prompt")
    ctx.metrics.gauge("cache_entries", -2.5, shard=3, warm=True)
    ctx.metrics.observe("seen_seconds", 0.02)
    ctx.metrics.observe("detections", 7, label='a "quoted" \\ one\n')


def check_all(found: dict[str, Any], name: str, calls: int) -> None:
    """That a scraper sees what `keep_all` did so often."""
    own = {"model": name, "version": "1"}

    def value(family: str, sample: str, **labels: str) -> float:
        samples = [one for one in found[family].samples if (one.name, one.labels) == (sample, {**own, **labels})]
        assert len(samples) == 1, found[family].samples
        return float(samples[0].value)

    assert {family: found[family].type for family in ("tokens", "cache_entries", "seen_seconds", "detections")} == {
        "tokens": "counter",
        "cache_entries": "gauge",
        "seen_seconds": "histogram",
        "detections": "histogram",
    }
    assert value("tokens", "tokens_total", kind="prompt") == 13 * calls
    assert value("cache_entries", "cache_entries", shard="3", warm="True") == -2.5
    assert value("seen_seconds", "seen_seconds_count") == calls
    assert value("seen_seconds", "seen_seconds_sum") == pytest.approx(0.02 * calls)
    bounds = [one.labels["le"] for one in found["seen_seconds"].samples if one.name.endswith("_bucket")]
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
    keep_all(ctx)
    return x


@model(name="yields", buckets=BUCKETS, **FLOATS)
def yields(x: Any, ctx: Context) -> Iterator[Any]:
    keep_all(ctx)
    yield x


@pytest.mark.parametrize(
    "served",
    [keeping(keep_all, "called", buckets=BUCKETS), awaited, yields, in_processes.keeps],
    ids=["thread", "async", "stream", "process"],
)
def test_what_is_kept_is_shown_wherever_the_handler_runs(served: Model[..., Any]) -> None:
    with Client(served) as client:
        for _ in range(3):
            if served.streams:
                assert client.post(f"/v2/models/{served.name}/generate_stream", b'{"x": [1]}').status == 200
            else:
                client.infer(served.name, X)
        check_all(scraped(client), served.name, 3)


def test_the_whole_exposition_is_valid_with_no_metric_of_a_handler() -> None:
    with Client(keeping(lambda _: None)) as client:
        client.infer("m", X)
        assert all(name.startswith("penstock_") for name in scraped(client))


def test_models_share_a_name_and_keep_their_own_series() -> None:
    both = [keeping(lambda ctx: ctx.metrics.counter("calls"), name) for name in ("a", "b")]
    with Client(*both) as client:
        for name in ("a", "b", "b"):
            client.infer(name, X)
        samples = scraped(client)["calls"].samples
    assert {one.labels["model"]: one.value for one in samples} == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("keep", "problem"),
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
def test_what_no_metric_can_be_is_refused(keep: Callable[[Context], Any], problem: str) -> None:
    said: list[str] = []

    def look(ctx: Context) -> None:
        with pytest.raises(ValueError, match=r".") as raised:
            keep(ctx)
        said.append(str(raised.value))

    with Client(keeping(look)) as client:
        client.infer("m", X)
        scraped(client)
    assert said == [problem]


def test_a_label_is_a_plain_value() -> None:
    def look(ctx: Context) -> None:
        with pytest.raises(TypeError, match="label 'kind' of metric 'calls' is a str, int, float or bool, got list"):
            ctx.metrics.counter("calls", kind=[])  # type: ignore[arg-type]

    with Client(keeping(look)) as client:
        client.infer("m", X)


def test_series_are_bounded_and_the_log_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    def look(ctx: Context) -> None:
        for index in range(1100):
            ctx.metrics.counter("calls", user=index)
        ctx.counter("late")

    with caplog.at_level(logging.WARNING, "penstock.m"), Client(keeping(look)) as client:
        for _ in range(2):
            client.infer("m", X)
        samples = scraped(client)["calls"].samples
        assert "penstock_custom" not in scraped(client)
    assert [one.value for one in samples] == [2] * 1000
    lines = [record.getMessage() for record in caplog.records if record.name == "penstock.m"]
    assert lines == [
        "model 'm' version '1': its handlers have the maximum of 1000 series of metrics: further series are dropped"
    ]


def test_a_process_cannot_make_more_series_either(capfd: pytest.CaptureFixture[str]) -> None:
    with Server(in_processes.hoards, http="127.0.0.1:0", grpc=None) as server:
        for _ in range(2):
            assert infer(server.http_url, "hoards", X).status == 200
        samples = families(get(server.http_url, "/metrics").body.decode())["hoarded"].samples
    assert len(samples) == 1000
    assert capfd.readouterr().err.count("the maximum of 1000 series of metrics") == 1


@pytest.mark.parametrize("bounds", [[], [1, 1], [2, 1], [-1, 1], "abc", 7, [math.nan], range(101)])
def test_buckets_are_ascending_numbers(bounds: Any) -> None:
    with pytest.raises(SignatureError) as raised:
        keeping(print, buckets={"h": bounds})
    rule = "model 'm': buckets of 'h' must be at most 100 ascending numbers of 0 or more, not "
    assert str(raised.value) == rule + repr(bounds)


@pytest.mark.parametrize(
    ("buckets", "problem"), [([1], "must be a dict of names and bounds"), ({"a b": [1]}, "the name of a histogram")]
)
def test_buckets_are_by_name(buckets: Any, problem: str) -> None:
    with pytest.raises(SignatureError, match=problem):
        keeping(print, buckets=buckets)


def test_the_last_bound_may_be_infinite() -> None:
    served = keeping(lambda ctx: ctx.metrics.observe("h", 2), buckets={"h": (1, math.inf)})
    with Client(served) as client:
        client.infer("m", X)
        text = client.get("/metrics").body.decode()
    assert metric(text, "h_bucket", le="1.0") == 0
    assert metric(text, "h_bucket", le="+Inf") == 1
    assert text.count("h_bucket{") == 2


def test_a_batch_that_is_shared_is_one_call() -> None:
    @model(name="m", inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])], batching=Batching())
    def handler(x: Any, ctx: Context) -> Any:
        ctx.metrics.observe("rows", len(x))
        return x

    with Client(handler) as client:
        client.infer("m", {"x": np.ones((3, 2), np.float32)})
        assert metric(client.get("/metrics").body.decode(), "rows_sum") == 3
