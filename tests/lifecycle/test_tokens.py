"""Tokens that handlers record: their metrics, by kind of handler, and refused counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import penstock
from http_by_hand import HttpResponse, infer, metric, openmetrics, post
from models import token_models
from penstock import Batching, Context, Server, model
from waiting import Gate, at_once, until

FLOATS = token_models.FLOATS
BODY = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [3]}]}'
X = {"x": np.ones(1, np.float32)}
COUNTERS = ("penstock_prompt_tokens_total", "penstock_completion_tokens_total")
HISTOGRAMS = ("penstock_request_prompt_tokens", "penstock_request_completion_tokens")
RATE = "penstock_completion_tokens_per_second"


def exposition(server: Server) -> str:
    text = openmetrics(server.http_url)
    assert list(text_string_to_metric_families(text))
    return text


plain = token_models.served("plain")


def counted(text: str, name: str) -> float:
    """Requests whose tokens are counted."""
    return metric(text, f"{HISTOGRAMS[0]}_count", model=name)


def check_counts(text: str, name: str, requests: int = 1) -> None:
    labels = {"model": name, "version": "2"}
    assert [metric(text, counter, **labels) for counter in COUNTERS] == [7 * requests, 5 * requests]
    for histogram, tokens, below in zip(HISTOGRAMS, (7, 5), (5, 2), strict=True):
        assert metric(text, f"{histogram}_count", **labels) == requests, histogram
        assert metric(text, f"{histogram}_sum", **labels) == tokens * requests, histogram
        assert metric(text, f"{histogram}_bucket", **labels, le=f"{below:.1f}") == 0, histogram
        assert metric(text, f"{histogram}_bucket", **labels, le="10.0") == requests, histogram
    assert metric(text, f"{RATE}_count", **labels) == requests
    assert metric(text, f"{RATE}_sum", **labels) > 0


@pytest.mark.parametrize("name", ["plain", "awaited", "yields", "awaits", "raw"])
@pytest.mark.parametrize("in_process", [False, True], ids=["thread", "process"])
def test_tokens_of_every_kind_of_handler_are_counted(name: str, in_process: bool) -> None:
    with Server(token_models.served(name, in_process), http="127.0.0.1:0", grpc=None) as server:
        for _ in range(2):
            assert post(server.http_url, token_models.path(name), BODY).status == 200
        # Of a stream, when the generator has ended, which its client may not wait for.
        until(lambda: counted(exposition(server), name) == 2)
        text = exposition(server)
    check_counts(text, name, 2)


def test_buckets_of_tokens_are_decades() -> None:
    with Server(plain, http="127.0.0.1:0", grpc=None) as server:
        infer(server.http_url, "plain", X)
        families = {family.name: family for family in text_string_to_metric_families(exposition(server))}
    bounds = {
        name: [float(one.labels["le"]) for one in families[name].samples if one.name.endswith("_bucket")]
        for name in (*HISTOGRAMS, RATE)
    }
    decades = [digit * 10.0**power for power in range(6) for digit in (1, 2, 5)]
    assert bounds[HISTOGRAMS[0]] == bounds[HISTOGRAMS[1]] == [*decades, 1e6, float("inf")]
    assert bounds[RATE] == [0.1, 0.2, 0.5, *decades[:12], 1e4, float("inf")]


def test_model_without_records_has_no_series_of_tokens() -> None:
    @model(**FLOATS)
    def silent(x: Any, ctx: Context) -> Any:
        return x

    with Server(silent, http="127.0.0.1:0", grpc=None) as server:
        assert infer(server.http_url, "silent", X).status == 200
        text = exposition(server)
    assert not [line for line in text.splitlines() if "tokens" in line and not line.startswith("#")]


def test_tokens_of_a_failed_request_are_counted() -> None:
    @model(**FLOATS)
    def fails(x: Any, ctx: Context) -> Any:
        ctx.record_tokens(prompt=4)
        raise RuntimeError("after the prompt")

    with Server(fails, http="127.0.0.1:0", grpc=None) as server:
        assert infer(server.http_url, "fails", X).status == 500
        text = exposition(server)
    assert metric(text, COUNTERS[0], model="fails") == 4
    assert metric(text, COUNTERS[1], model="fails") == 0
    assert metric(text, f"{HISTOGRAMS[1]}_count", model="fails") == 0
    assert metric(text, f"{RATE}_count", model="fails") == 0


def test_requests_of_a_batch_are_counted_apart() -> None:
    gate = Gate()
    errors: list[RuntimeError] = []

    @model(**FLOATS, batching=Batching(max_size=4))
    def joined(x: Any, ctx: Context) -> Any:
        gate.enter()
        if len(ctx.requests) > 1:
            with pytest.raises(RuntimeError, match="joins 2 requests") as raised:
                ctx.record_tokens(prompt=1)
            errors.append(raised.value)
        for request, rows in zip(ctx.requests, x, strict=True):
            request.record_tokens(prompt=int(rows[0]), completion=1)
        return x

    with Server(joined, http="127.0.0.1:0", grpc=None) as server:

        def call(value: int) -> HttpResponse:
            return infer(server.http_url, "joined", {"x": np.full((1, 1), value, np.float32)})

        first = at_once([lambda: call(1)])
        gate.await_entered()
        others = at_once([lambda: call(20), lambda: call(300)])
        until(lambda: metric(openmetrics(server.http_url), "penstock_queue_depth", model="joined") == 2)
        gate.open()
        assert [one.result().status for one in (*first, *others)] == [200] * 3
        text = exposition(server)
    assert len(errors) == 1
    counts = [metric(text, f"{HISTOGRAMS[0]}_bucket", model="joined", le=le) for le in ("1.0", "20.0", "500.0")]
    assert counts == [1, 2, 3]
    assert metric(text, COUNTERS[0], model="joined") == 321


@pytest.mark.parametrize("through", ["context", "request", "peer"])
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, TypeError, "takes prompt, completion or both"),
        ({"prompt": -1}, ValueError, r"prompt is -1, expected an integer from 0 to 2\*\*53"),
        ({"completion": 2**53 + 1}, ValueError, r"completion has 9007199254740993 tokens, expected at most 2\*\*53"),
        ({"completion": 2**64}, ValueError, "completion is 18446744073709551616, expected an integer"),
        ({"prompt": 1.5}, TypeError, "prompt is a float, expected an integer"),
        ({"prompt": True}, TypeError, "prompt is a bool, expected an integer"),
        ({"completion": "5"}, TypeError, "completion is a str, expected an integer"),
        ({"prompt": 1, "finish_reason": "x" * 129}, ValueError, "finish_reason has 129 bytes, expected at most 128"),
        ({"prompt": 1, "operation": "talk"}, ValueError, "operation is 'talk', expected one of chat, embeddings"),
    ],
)
def test_wrong_counts_are_refused(through: str, given: Any, error: type[Exception], message: str) -> None:
    @model(**FLOATS)
    def checked(x: Any, ctx: Context) -> Any:
        target = {"context": ctx, "request": ctx.requests[0], "peer": ctx.models["plain"]}[through]
        with pytest.raises(error, match=message):
            target.record_tokens(**given)
        return x

    with Server(checked, plain, http="127.0.0.1:0", grpc=None) as server:
        assert infer(server.http_url, "checked", X).status == 200
        text = exposition(server)
    assert not [line for line in text.splitlines() if "tokens" in line and not line.startswith("#")]


def test_sum_over_the_maximum_is_refused() -> None:
    @model(**FLOATS)
    def most(x: Any, ctx: Context) -> Any:
        ctx.record_tokens(completion=2**53)
        with pytest.raises(ValueError, match="completion has 9007199254740993 tokens"):
            ctx.record_tokens(completion=1)
        return x

    with Server(most, http="127.0.0.1:0", grpc=None) as server:
        assert infer(server.http_url, "most", X).status == 200
        assert metric(exposition(server), COUNTERS[1], model="most") == 2**53


def test_counts_after_the_end_of_the_handler_are_refused() -> None:
    kept: list[Context] = []

    @model(**FLOATS)
    def keeps(x: Any, ctx: Context) -> Any:
        kept.append(ctx)
        return x

    with Server(keeps, http="127.0.0.1:0", grpc=None) as server:
        assert infer(server.http_url, "keeps", X).status == 200
        with pytest.raises(RuntimeError, match="handler of this request has ended"):
            kept[0].record_tokens(prompt=1)
        kept.clear()


def test_caller_counts_tokens_of_the_model_that_it_calls() -> None:
    @model(name="words", version="2", **FLOATS)
    def words(x: Any) -> Iterator[Any]:
        yield x
        yield x

    @model(name="front", routes=["POST /front"], calls=["words"])
    async def front(request: penstock.Request, ctx: Context) -> Any:
        called = ctx.models["words", "2"]
        chunks = [chunk async for chunk in called.stream(x=np.ones(1, np.float32))]
        called.record_tokens(prompt=7, completion=5, finish_reason="length", operation="chat")
        return penstock.Response(str(len(chunks)).encode())

    with Server(front, words, http="127.0.0.1:0", grpc=None) as server:
        assert post(server.http_url, "/front", b"").body == b"2"
        text = exposition(server)
    check_counts(text, "words")
    assert 'tokens_total{model="front"' not in text


def test_caller_counts_only_for_models_that_it_may_call() -> None:
    @model(**FLOATS, calls=["plain"])
    def caller(x: Any, ctx: Context) -> Any:
        with pytest.raises(penstock.HandlerError, match="calls 'awaited', which its calls="):
            ctx.models["awaited"].record_tokens(prompt=1)
        return x

    with Server(caller, plain, token_models.served("awaited"), http="127.0.0.1:0", grpc=None) as server:
        assert infer(server.http_url, "caller", X).status == 200
