"""Attributes of OpenTelemetry's conventions for generative AI on spans of requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai

import penstock
from collector import Collector, collecting
from http_by_hand import infer, post
from models import token_models
from penstock import Context, Server, model

BODY = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [3]}]}'
X = {"x": np.ones(1, np.float32)}
STREAM = {gen_ai.GEN_AI_REQUEST_STREAM, gen_ai.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER", "OTEL_SEMCONV_STABILITY_OPT_IN"):
        monkeypatch.delenv(name, raising=False)
    with collecting() as one:
        yield one


def serving(collector: Collector, *models: Any, **settings: Any) -> Server:
    return Server(*models, http="127.0.0.1:0", grpc=None, otlp_endpoint=collector.url, **settings)


def attributes(span: Span) -> dict[str, Any]:
    """The attributes of generative AI."""
    found: dict[str, Any] = {}
    for one in span.attributes:
        if one.key.startswith("gen_ai."):
            kind = one.value.WhichOneof("value")
            value = getattr(one.value, str(kind))
            found[one.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return found


def expected(name: str, operation: str = "text_completion", reason: str = "stop") -> dict[str, Any]:
    return {
        gen_ai.GEN_AI_OPERATION_NAME: operation,
        gen_ai.GEN_AI_PROVIDER_NAME: "penstock",
        gen_ai.GEN_AI_REQUEST_MODEL: name,
        gen_ai.GEN_AI_RESPONSE_MODEL: name,
        gen_ai.GEN_AI_USAGE_INPUT_TOKENS: 7,
        gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS: 5,
        gen_ai.GEN_AI_RESPONSE_FINISH_REASONS: [reason],
    }


@pytest.mark.parametrize("name", ["plain", "awaited", "yields", "awaits", "raw"])
@pytest.mark.parametrize("in_process", [False, True], ids=["thread", "process"])
def test_span_of_every_kind_of_handler_has_its_tokens(collector: Collector, name: str, in_process: bool) -> None:
    with serving(collector, token_models.served(name, in_process), otlp_gen_ai=True) as server:
        assert post(server.http_url, token_models.path(name), BODY).status == 200
    found = attributes(collector.one(f"infer {name}"))
    streamed = {key: found.pop(key) for key in STREAM & found.keys()}
    assert found == expected(name)
    if name in ("yields", "awaits"):
        assert streamed[gen_ai.GEN_AI_REQUEST_STREAM] is True
        assert 0 < streamed[gen_ai.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] < 60
    else:
        assert not streamed


def test_span_of_a_caller_has_the_tokens_of_the_called_model(collector: Collector) -> None:
    @model(name="front", routes=["POST /front"])
    async def front(request: penstock.Request, ctx: Context) -> Any:
        ctx.models["awaited"].record_tokens(prompt=7, completion=5, finish_reason="length", operation="chat")
        return penstock.Response(b"done")

    with serving(collector, front, token_models.served("awaited"), otlp_gen_ai=True) as server:
        assert post(server.http_url, "/front", b"").status == 200
    assert attributes(collector.one("infer front")) == expected("awaited", "chat", "length")


def test_requests_without_tokens_have_no_such_attributes(collector: Collector) -> None:
    @model(**token_models.FLOATS)
    def silent(x: Any) -> Any:
        return x

    with serving(collector, silent, otlp_gen_ai=True) as server:
        assert infer(server.http_url, "silent", X).status == 200
    assert attributes(collector.one("infer silent")) == {}


@pytest.mark.parametrize(
    ("opted", "has_them"), [(None, False), ("http", False), ("http,gen_ai_latest_experimental", True)]
)
def test_attributes_are_opt_in(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, opted: str | None, has_them: bool
) -> None:
    if opted is not None:
        monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", opted)
    with serving(collector, token_models.served("plain")) as server:
        assert infer(server.http_url, "plain", X).status == 200
    assert bool(attributes(collector.one("infer plain"))) is has_them
