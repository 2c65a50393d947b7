"""`OpenAIProxyModel`: requests forwarded to another server by httpx (R8)."""

from __future__ import annotations

import asyncio
import importlib
import json
import pickle
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from penstock.compat.kserve.protocol.rest.openai import (
    ChatCompletionRequest,
    CompletionRequest,
    OpenAIProxyModel,
)
from penstock.compat.kserve.protocol.rest.openai.errors import OpenAIError
from penstock.compat.kserve.protocol.rest.openai.types import CreateCompletionRequest, ValidationError

COMPLETION = {"id": "i", "object": "text_completion", "created": 5, "model": "m",
         "choices": [{"index": 0, "text": "t", "finish_reason": "stop", "logprobs": None}]}  # fmt: skip
CHAT = {"id": "i", "object": "chat.completion", "created": 5, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "t"}}]}  # fmt: skip
MESSAGES = [{"role": "user", "content": "hi"}]

Responder = Callable[[httpx.Request], httpx.Response]


def proxy(respond: Responder, kind: type[OpenAIProxyModel] = OpenAIProxyModel, **options: Any) -> Any:
    client = httpx.AsyncClient(transport=httpx.MockTransport(respond))
    return kind("m", "http://upstream:9/base/", http_client=client, **options)


def complete(model: Any, **more: Any) -> Any:
    return asyncio.run(collected(model.create_completion, CompletionRequest(model="m", prompt="p", **more)))


async def collected(handler: Any, request: Any, raw: Any = None, context: Any = None) -> Any:
    response = await handler(request, raw, context)
    return [chunk async for chunk in response] if hasattr(response, "__aiter__") else response


def test_r8_requests_are_forwarded_unchanged() -> None:
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=COMPLETION)

    response = complete(proxy(respond), top_k=3)
    assert response.choices[0].text == "t"
    (request,) = seen
    assert str(request.url) == "http://upstream:9/base/v1/completions"
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.content) == {"model": "m", "prompt": "p", "top_k": 3}


def test_r8_upstream_headers_are_forwarded() -> None:
    seen: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["x-key"])
        return httpx.Response(200, json=COMPLETION)

    model, completion_request = proxy(respond), CompletionRequest(model="m", prompt="p")
    asyncio.run(collected(model.create_completion, completion_request, {"upstream_headers": {"x-key": "raw"}}))
    asyncio.run(
        collected(model.create_completion, completion_request, None, {"upstream_headers": {"x-key": "context"}})
    )
    params = CreateCompletionRequest(model="m", prompt="p")
    old = CompletionRequest(params=params, context={"upstream_headers": {"x-key": "old"}})
    asyncio.run(collected(model.create_completion, old))
    assert seen == ["raw", "context", "old"]


class WithHooks(OpenAIProxyModel):
    def preprocess_completion_request(self, request: Any, raw_request: Any = None) -> None:
        request.prompt = f"before {request.prompt}"

    async def postprocess_completion(self, completion: Any, request: Any, raw_request: Any = None) -> None:
        completion.choices[0].text += f" after {request.prompt}"

    def postprocess_completion_chunk(self, completion: Any, request: Any, raw_request: Any = None) -> None:
        completion.choices[0].text = completion.choices[0].text.upper()

    # As in KServe 0.13, which passes the request alone.
    def preprocess_chat_completion_request(self, request: Any) -> None:
        request.params.messages[0]["content"] = "changed"

    def postprocess_chat_completion(self, chat_completion: Any, request: Any) -> None:
        chat_completion.choices[0].message.content = request.params.messages[0].content


def test_r8_hooks_change_requests_and_responses() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.path.endswith("chat/completions"):
            assert body["messages"][0]["content"] == "changed"
            return httpx.Response(200, json=CHAT)
        assert body["prompt"] == "before p"
        return httpx.Response(200, json=COMPLETION)

    model = proxy(respond, WithHooks)
    assert complete(model).choices[0].text == "t after before p"
    chat = ChatCompletionRequest(model="m", messages=MESSAGES)
    response = asyncio.run(collected(model.create_chat_completion, chat))
    assert response.choices[0].message.content == "changed"


def events(*texts: str) -> bytes:
    chunks = [{**COMPLETION, "choices": [{"index": 0, "text": text, "logprobs": None}]} for text in texts]
    return b"".join(f": note\n\ndata: {json.dumps(one)}\n\n".encode() for one in chunks) + b"data: [DONE]\n\n"


def test_r8_streams_are_forwarded_chunk_by_chunk() -> None:
    model = proxy(lambda request: httpx.Response(200, content=events("a", "b")), WithHooks)
    assert [one.choices[0].text for one in complete(model, stream=True)] == ["A", "B"]
    response = asyncio.run(
        collected(
            proxy(lambda request: httpx.Response(200, content=events())).create_chat_completion,
            ChatCompletionRequest(model="m", messages=MESSAGES, stream=True),
        )
    )
    assert response == []


def test_r8_closing_the_stream_closes_the_upstream() -> None:
    closed: list[bool] = []

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            while True:
                yield events("a").removesuffix(b"data: [DONE]\n\n")

        async def aclose(self) -> None:
            closed.append(True)

    async def read_one() -> None:
        model = proxy(lambda request: httpx.Response(200, stream=Endless()))
        stream = await model.create_completion(CompletionRequest(model="m", prompt="p", stream=True))
        await anext(stream)
        await stream.aclose()

    asyncio.run(read_one())
    assert closed == [True]


@pytest.mark.parametrize("stream", [False, True])
def test_r8_upstream_errors_retain_body_and_status(stream: bool) -> None:
    error = {"error": {"code": "429", "message": "later", "param": None, "type": "rate"}}
    with pytest.raises(OpenAIError) as caught:
        complete(proxy(lambda request: httpx.Response(429, json=error)), stream=stream)
    assert caught.value.response.model_dump() == error
    with pytest.raises(OpenAIError, match="Received invalid response from upstream: oops") as caught:
        complete(proxy(lambda request: httpx.Response(500, text="oops")), stream=stream)
    assert (caught.value.response.error.code, caught.value.response.error.type) == ("502", "BadGateway")


@pytest.mark.parametrize(
    ("raised", "code", "kind", "text"),
    [
        (httpx.ReadTimeout("slow"), "504", "GatewayTimeout", "Timed out when communicating with upstream: slow"),
        (httpx.ConnectTimeout("slow"), "504", "GatewayTimeout", "Timed out when communicating with upstream: slow"),
        (httpx.ConnectError("gone"), "503", "ServiceUnavailableError", "Failed to communicate with upstream: gone"),
        (httpx.TooManyRedirects("odd"), "500", "InternalServerError", "Upstream request failed: odd"),
    ],
)
def test_r8_unreachable_upstream_is_an_error(raised: Exception, code: str, kind: str, text: str) -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        raise raised

    with pytest.raises(OpenAIError) as caught:
        complete(proxy(respond))
    error = caught.value.response.error
    assert (error.code, error.type, error.message) == (code, kind, text)


def test_r8_upstream_responses_are_validated_by_default() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"id": "i", "choices": "none"})

    with pytest.raises(ValidationError, match="model: Field required"):
        complete(proxy(respond))
    assert complete(proxy(respond, skip_upstream_validation=True)).choices == "none"


def test_r8_proxy_health_follows_the_upstream() -> None:
    paths: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return httpx.Response(503 if len(paths) > 1 else 200)

    model = proxy(respond)
    assert asyncio.run(model.healthy()) is True
    assert asyncio.run(model.healthy()) is False
    assert asyncio.run(proxy(respond, health_endpoint=None).healthy()) is True
    assert asyncio.run(proxy(respond, health_endpoint="/openai/v1/models/m").healthy()) is False
    assert paths == ["/base/health", "/base/health", "/base/openai/v1/models/m"]


def test_r8_each_event_loop_has_its_own_default_client() -> None:
    model = OpenAIProxyModel("m", "http://upstream:9")

    async def client() -> Any:
        created = model._clients.client()
        assert model._clients.client() is created
        await model.close_clients()
        assert created.is_closed
        return created

    first, second = asyncio.run(client()), asyncio.run(client())
    assert first is not second
    assert (first.timeout.connect, first.timeout.read) == (5.0, 30.0)
    assert pickle.loads(pickle.dumps(model)).predictor_url == "http://upstream:9"


def test_r8_missing_httpx_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match="pip install 'penstock\\[kserve\\]', or pass a client as http_client"):
        OpenAIProxyModel("m", "http://upstream:9")
