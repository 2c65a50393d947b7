"""OpenAI's routes over HTTP, for scripts of both versions (R8)."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pydantic
import pytest
from openai import OpenAI

import penstock
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.model import BaseKServeModel
from penstock.compat.kserve.protocol.rest.openai import (
    ChatPrompt,
    OpenAIChatAdapterModel,
    OpenAIEncoderModel,
    OpenAIGenerativeModel,
    OpenAIModel,
    OpenAIProxyModel,
)
from penstock.compat.kserve.protocol.rest.openai._routes import openai_routes
from penstock.compat.kserve.protocol.rest.openai.errors import OpenAIError, create_error_response
from penstock.compat.kserve.protocol.rest.openai.types import (
    Completion,
    CompletionChoice,
    CompletionChunk,
    Embedding,
    EmbeddingResponseData,
    Rerank,
    RerankDocument,
    RerankResult,
)
from waiting import PATIENCE

Serve = Callable[..., str]
HELLO: Any = [{"role": "user", "content": "hi there"}]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves models; yields the server's address."""
    with ExitStack() as opened:

        def served(*models: Any) -> str:
            routes = openai_routes(models)
            server = opened.enter_context(penstock.Server(*routes, http="127.0.0.1:0", grpc=None))
            return str(server.http_url)

        yield served


def client_of(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/openai/v1", api_key="-", max_retries=0, timeout=PATIENCE)


def send(url: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], Any]:
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, headers={"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            status, response_headers, text = response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        status, response_headers, text = error.code, error.headers, error.read()
    kind = response_headers.get("content-type") or ""
    return (
        status,
        {name.lower(): value for name, value in response_headers.items()},
        json.loads(text) if "json" in kind else text,
    )


def completion(text: str, reason: str | None = "stop") -> Completion:
    return Completion(
        id="i", created=5, model="m", choices=[CompletionChoice(index=0, text=text, finish_reason=reason)]
    )


class New(OpenAIChatAdapterModel):
    """A script's model for KServe 0.14 and later."""

    def __init__(self, name: str = "m") -> None:
        super().__init__(name)
        self.seen: list[Any] = []

    def apply_chat_template(self, request: Any) -> ChatPrompt:
        return ChatPrompt(prompt=" ".join(one["content"] for one in request.messages))

    async def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
        self.seen.append((request, raw_request, context))
        match request.prompt:
            case "boom":
                raise RuntimeError("no")
            case "bad":
                raise InvalidInput("bad input")
            case "error":
                return create_error_response("custom", "T", "p")
            case "raised":
                raise OpenAIError("text")
            case "refused":
                raise OpenAIError(create_error_response("m", "T", "p"))
        if context is not None:
            context["response"].headers["X-Mine"] = "1"
            context["response"].status_code = 202
        if not request.stream:
            return completion(request.prompt.upper())

        async def words() -> Any:
            for word in request.prompt.split():
                if word == "fail":
                    raise RuntimeError("midway")
                yield f"data: {completion(word, None).model_dump_json()}\n\n"
            yield "data: [DONE]\n\n"

        return words()


class Old(OpenAIModel):
    """A script's model for KServe 0.13."""

    def __init__(self, name: str = "m") -> None:
        super().__init__(name)
        self.seen: list[Any] = []

    async def create_completion(self, request: Any) -> Any:
        self.seen.append(request)
        request.context["response"].headers["X-Mine"] = "1"
        if not request.params.stream:
            return completion(request.params.prompt.upper())

        async def words() -> Any:
            for word in request.params.prompt.split():
                yield completion(word, None)

        return words()

    async def create_chat_completion(self, request: Any) -> Any:
        return {"id": "i", "messages": [dict(one) for one in request.params.messages]}


@pytest.mark.parametrize("kind", [New, Old], ids=["new", "old"])
def test_r8_completions_work_in_both_versions(serve: Serve, kind: Any) -> None:
    model = kind()
    url = serve(model)
    status, headers, body = send(url, "/openai/v1/completions", {"model": "m", "prompt": "hi", "user": "u", "extra": 1})
    assert (status, headers["x-mine"]) == (202 if kind is New else 200, "1")
    choice = {"index": 0, "text": "HI", "logprobs": None, "finish_reason": "stop"}
    assert body == {
        "id": "i", "object": "text_completion", "created": 5, "model": "m", "choices": [choice],
        "system_fingerprint": None, "usage": None,
    }  # fmt: skip
    events = client_of(url).completions.create(model="m", prompt="hi there", stream=True)
    assert [event.choices[0].text for event in events] == ["hi", "there"]


def test_r8_handlers_get_raw_request_and_context(serve: Serve) -> None:
    model = New()
    send(
        serve(model), "/openai/v1/completions?a=b", {"model": "m", "prompt": "hi", "extra": 1}, **{"X-Request-Id": "r"}
    )
    ((request, raw, context),) = model.seen
    assert (request.prompt, request.extra, request.max_tokens) == ("hi", 1, 16)
    assert context["headers"]["x-request-id"] == "r"
    assert (raw.headers["X-Request-ID"], raw.method, raw.url.path) == ("r", "POST", "/openai/v1/completions")
    assert raw.query_params == {"a": "b"}
    assert asyncio.run(raw.json())["extra"] == 1
    assert json.loads(asyncio.run(raw.body()))["prompt"] == "hi"
    assert "upstream_headers" not in raw


def test_r8_handlers_of_0_13_get_one_request_argument(serve: Serve) -> None:
    model = Old()
    url = serve(model)
    send(url, "/openai/v1/completions", {"model": "m", "prompt": "hi", "user": "u"}, **{"X-Request-Id": "r"})
    (request,) = model.seen
    assert request.request_id == "r"
    assert sorted(request.context) == ["headers", "response"]
    assert request.params.model_dump(exclude_unset=True) == {"model": "m", "prompt": "hi", "user": "u"}
    assert request.params.temperature == 1.0
    _, _, body = send(url, "/openai/v1/chat/completions", {"model": "m", "messages": HELLO})
    assert body["messages"] == HELLO


def test_r8_openai_client_completes_chats(serve: Serve) -> None:
    client = client_of(serve(New()))
    response = client.chat.completions.create(model="m", messages=HELLO)
    assert response.choices[0].message.content == "HI THERE"
    events = client.chat.completions.create(model="m", messages=HELLO, stream=True)
    assert [event.choices[0].delta.content for event in events] == ["hi", "there"]


class Encoder(OpenAIEncoderModel):
    async def create_embedding(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
        texts = [request.input] if isinstance(request.input, str) else request.input
        data = [EmbeddingResponseData(index=i, embedding=[float(len(text))]) for i, text in enumerate(texts)]
        return Embedding(model=request.model, data=data)

    async def create_rerank(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
        results = [
            RerankResult(index=i, document=RerankDocument(text=text), relevance_score=1.0 - i)
            for i, text in enumerate(request.documents)
        ]
        return Rerank(id="i", model=request.model, results=results)


def test_r8_embeddings_and_rerank(serve: Serve) -> None:
    url = serve(Encoder("e"))
    response = client_of(url).embeddings.create(model="e", input=["a", "bb"], encoding_format="float")
    assert [one.embedding for one in response.data] == [[1.0], [2.0]]
    _, _, body = send(url, "/openai/v1/rerank", {"model": "e", "query": "q", "documents": ["x", "y"]})
    assert body == {
        "id": "i", "model": "e", "usage": {"prompt_tokens": 0, "total_tokens": 0},
        "results": [{"index": 0, "document": {"text": "x"}, "relevance_score": 1.0},
                    {"index": 1, "document": {"text": "y"}, "relevance_score": 0.0}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "model", "name"),
    [
        ("completions", "e", "Completions"),
        ("chat/completions", "e", "Chat Completion"),
        ("embeddings", "m", "Embeddings"),
        ("rerank", "m", "Rerank"),
    ],
)
def test_r8_unsupported_apis_of_a_model_are_refused(serve: Serve, path: str, model: str, name: str) -> None:
    fields = {"model": model, "prompt": "p", "messages": HELLO, "input": "i", "query": "q", "documents": ["d"]}
    status, _, body = send(serve(New(), Encoder("e")), f"/openai/v1/{path}", fields)
    error = {"code": "400", "message": f"Model {model} does not support {name} API", "param": "",
             "type": "BadRequestError"}  # fmt: skip
    assert (status, body) == (400, {"error": error})


@pytest.mark.parametrize(
    ("fields", "status", "body"),
    [
        ({"prompt": "boom"}, 500, {"error": "RuntimeError : no"}),
        ({"prompt": "bad"}, 400, {"error": "bad input"}),
        ({"prompt": "error"}, 400, {"error": {"code": "400", "message": "custom", "param": "p", "type": "T"}}),
        ({"prompt": "raised"}, 500, {"error": {"code": "500", "message": "text", "param": "", "type": "OpenAIError"}}),
        ({"prompt": "refused"}, 400, {"error": {"code": "400", "message": "m", "param": "p", "type": "T"}}),
        ({"prompt": "p", "model": "unknown"}, 404, {"error": "Model with name unknown does not exist."}),
        ({"prompt": "p", "model": "plain"}, 404, {"error": "Model with name plain does not exist."}),
        ({"prompt": "p", "model": "late"}, 503, {"error": "Model with name late is not ready."}),
        ({"prompt": "p", "model": None}, 422, ["body", "model"]),
        ({"prompt": 3}, 422, ["body", "prompt"]),
        ({"prompt": "p", "n": 1000}, 422, ["body", "n"]),
    ],
)
def test_r8_errors_map_to_statuses(serve: Serve, fields: Any, status: int, body: Any) -> None:
    unready = New("late")
    unready.ready = False
    url = serve(New(), unready, BaseKServeModel("plain"))
    actual, headers, response = send(url, "/openai/v1/completions", {"model": "m", **fields})
    assert (actual, headers["content-type"]) == (status, "application/json")
    assert (response["detail"][0]["loc"] if status == 422 else response) == body


def test_r8_invalid_json_bodies_are_rejected(serve: Serve) -> None:
    url = serve(New())
    status, _, body = send(url, "/openai/v1/completions", b"{nope")
    detail = {"type": "json_invalid", "loc": ["body", 1], "msg": "JSON decode error", "input": {},
              "ctx": {"error": "Expecting property name enclosed in double quotes"}}  # fmt: skip
    assert (status, body) == (422, {"detail": [detail]})
    status, _, body = send(url, "/openai/v1/completions", b"[]")
    assert (status, body["detail"][0]["loc"]) == (422, ["body"])
    status, _, body = send(url, "/openai/v1/completions", b'{"model": "m", "prompt": "\\ud800"}')
    text = "'prompt' has half of a surrogate pair, expected Unicode text"
    assert (status, body["detail"][0]["ctx"]) == (422, {"error": text})


def test_r8_models_are_listed_and_retrieved(serve: Serve) -> None:
    unready = New("late")
    unready.ready = False
    url = serve(New(), unready, Encoder("e"))
    assert [(one.id, one.owned_by) for one in client_of(url).models.list()] == [("m", ""), ("late", ""), ("e", "")]
    assert send(url, "/openai/v1/models/m")[::2] == (200, None)
    assert send(url, "/openai/v1/models/late")[::2] == (503, {"error": "Model with name late is not ready."})
    assert send(url, "/openai/v1/models/x")[::2] == (404, {"error": "Model with name x does not exist."})


def test_r8_errors_within_a_stream_are_events(serve: Serve) -> None:
    url = serve(New())
    _, headers, body = send(url, "/openai/v1/completions", {"model": "m", "prompt": "a fail", "stream": True})
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["x-mine"] == "1"
    first, second, done, rest = body.decode().split("\n\n")
    assert json.loads(first.removeprefix("data: "))["choices"][0]["text"] == "a"
    assert json.loads(second.removeprefix("data: "))["error"]["message"] == "RuntimeError : midway"
    assert (done, rest) == ("data: [DONE]", "")
    # Before the first chunk the error has its own status.
    assert send(url, "/openai/v1/completions", {"model": "m", "prompt": "fail", "stream": True})[0] == 500


def test_r8_pydantic_objects_and_plain_handlers_work(serve: Serve) -> None:
    class Mine(pydantic.BaseModel):
        id: str
        thread: int

    class Plain(OpenAIModel):
        def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
            return Mine(id="i", thread=threading.get_ident())

        async def create_chat_completion(self, request: Any, **arguments: Any) -> Any:
            return {"arguments": sorted(arguments)}

    url = serve(Plain("m"))
    _, _, body = send(url, "/openai/v1/completions", {"model": "m", "prompt": "p"})
    assert body["id"] == "i"
    assert body["thread"] != threading.get_ident()
    _, _, body = send(url, "/openai/v1/chat/completions", {"model": "m", "messages": HELLO})
    assert body == {"arguments": ["context", "raw_request"]}


@pytest.mark.parametrize("stream", [False, True])
def test_r8_client_disconnect_cancels_the_handler(serve: Serve, stream: bool) -> None:
    started, ended = threading.Event(), threading.Event()

    class Endless(OpenAIModel):
        async def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
            if not request.stream:
                return await self.forever()

            async def words() -> Any:
                yield CompletionChunk(model="m", choices=[])
                await self.forever()

            return words()

        async def forever(self) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    url = serve(Endless("m"))
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({"model": "m", "prompt": "p", "stream": stream}).encode()
    import socket

    with socket.create_connection((host, int(port))) as connection:
        head = f"POST /openai/v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        assert started.wait(PATIENCE)
    assert ended.wait(PATIENCE)


def test_r8_proxy_forwards_streams_and_errors(serve: Serve) -> None:
    upstream = serve(New())
    url = serve(OpenAIProxyModel("m", f"{upstream}/openai", health_endpoint="/v1/models/m"))
    client = client_of(url)
    assert client.completions.create(model="m", prompt="hi").choices[0].text == "HI"
    events = client.completions.create(model="m", prompt="hi there", stream=True)
    assert [event.choices[0].text for event in events] == ["hi", "there"]
    assert client.chat.completions.create(model="m", messages=HELLO).choices[0].message.content == "HI THERE"
    status, _, body = send(url, "/openai/v1/completions", {"model": "m", "prompt": "error"})
    assert (status, body["error"]["message"]) == (400, "custom")
    assert send(url, "/openai/v1/models/m")[0] == 200


def test_r8_proxy_with_unreachable_upstream_is_not_ready(serve: Serve) -> None:
    url = serve(OpenAIProxyModel("m", "http://127.0.0.1:1"))
    status, _, body = send(url, "/openai/v1/models/m")
    assert (status, body) == (503, {"error": "Model with name m is not ready."})


@pytest.mark.parametrize(("prefix", "path"), [("", "/v1"), ("llm", "/llm/v1"), ("/llm/", "/llm/v1")])
def test_r8_environment_sets_the_route_prefix(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, prefix: str, path: str
) -> None:
    monkeypatch.setenv("KSERVE_OPENAI_ROUTE_PREFIX", prefix)
    status, _, body = send(serve(New()), f"{path}/completions", {"model": "m", "prompt": "p"})
    assert (status, body["choices"][0]["text"]) == (202, "P")


def test_r8_openai_routes_without_models_are_empty() -> None:
    assert openai_routes([BaseKServeModel("plain")]) == []
    assert len(openai_routes({"alias": New()})) == 1


def test_r8_scripts_subclass_generative_models() -> None:
    assert issubclass(OpenAIProxyModel, OpenAIGenerativeModel)
    assert not hasattr(OpenAIModel("m"), "create_completion")
