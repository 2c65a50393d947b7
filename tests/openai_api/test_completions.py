"""`openai.Completions` and `openai.Chat`, called with the official OpenAI client."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
from openai import APIError, BadRequestError, InternalServerError, NotFoundError
from openai_helpers import ServeModels, post

from penstock import Batching, Context, Final, InvalidInput, SignatureError, Tensor, model, openai
from penstock.testing import Client
from waiting import PATIENCE, until

TEXT = Tensor("text", str, [1])
WORD = Tensor("word", str, [1])


@model(name="shout")
def streaming(prompt: str) -> Iterator[str]:
    for word in prompt.split():
        yield word.upper() + " "


@model(name="shout")
async def async_streaming(prompt: str) -> AsyncIterator[str]:
    for word in prompt.split():
        await asyncio.sleep(0)
        yield word.upper() + " "


@model(name="shout")
def unary(prompt: str) -> str:
    return "".join(word.upper() + " " for word in prompt.split())


@model(name="shout", inputs=[TEXT], outputs=[WORD], batching=Batching(max_size=8))
def batched(text):
    return np.array([[unary(item)] for item in text[:, 0]], object)


@model(name="shout", inputs=[TEXT], outputs=[WORD], batching=Batching(max_size=8))
def streaming_batches(text):
    words = [item.split() for item in text[:, 0]]
    for step in range(max(map(len, words)) + 1):
        yield [
            Final() if step == len(row) else np.array([row[step].upper() + " "], object) if step < len(row) else None
            for row in words
        ]


@model(name="shout", inputs=[TEXT], outputs=[Tensor("word", "BYTES", [1])])
def in_bytes(text):
    # Multi-byte characters are split between chunks.
    for byte in unary(text[0]).encode():
        yield np.array([bytes([byte])], object)


MODELS = [streaming, async_streaming, unary, batched, streaming_batches, in_bytes]
NAMES = ["streaming", "async_streaming", "unary", "batched", "streaming_batches", "in_bytes"]


def template(messages: list[dict[str, Any]]) -> str:
    return " ".join(f"{item['role']}: {item['content']}" for item in messages)


@pytest.mark.parametrize("served", MODELS, ids=NAMES)
def test_prompt_is_completed(client_of: ServeModels, served: Any) -> None:
    client = client_of(served, openai.routes(openai.Completions(served)))
    response = client.completions.create(model="shout", prompt="one twö")
    assert response.object == "text_completion"
    assert response.id.startswith("cmpl-")
    (choice,) = response.choices
    assert (choice.text, choice.finish_reason, choice.index) == ("ONE TWÖ ", "stop", 0)
    assert response.usage is not None
    assert response.usage.total_tokens == 0

    events = list(client.completions.create(model="shout", prompt="one twö", stream=True))
    assert "".join(event.choices[0].text for event in events) == "ONE TWÖ "
    assert [event.choices[0].finish_reason for event in events] == [None] * (len(events) - 1) + ["stop"]
    assert len({event.id for event in events}) == 1


@pytest.mark.parametrize("served", MODELS, ids=NAMES)
def test_chat_is_completed(client_of: ServeModels, served: Any) -> None:
    client = client_of(served, openai.routes(openai.Chat(served, template)))
    messages: Any = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "there"}]},
    ]
    response = client.chat.completions.create(model="shout", messages=messages)
    assert response.object == "chat.completion"
    (choice,) = response.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "SYSTEM: BE BRIEF USER: HI THERE ")
    assert choice.finish_reason == "stop"

    events = list(client.chat.completions.create(model="shout", messages=messages, stream=True))
    assert events[0].choices[0].delta.role == "assistant"
    assert "".join(event.choices[0].delta.content or "" for event in events) == "SYSTEM: BE BRIEF USER: HI THERE "
    assert events[-1].choices[0].finish_reason == "stop"
    assert {event.object for event in events} == {"chat.completion.chunk"}


def test_chat_model_may_accept_messages(client_of: ServeModels) -> None:
    @model(name="talk")
    def talk(messages: list[dict[str, Any]]) -> Iterator[str]:
        for item in messages:
            yield f"{item['role']}={json.dumps(item['content'])};"

    chat = openai.Chat(talk, tokens=lambda text: len(text.split()), accepts={"image_url"})
    client = client_of(talk, openai.routes(chat))
    image = [{"type": "text", "text": "what is this"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    response = client.chat.completions.create(model="talk", messages=[{"role": "user", "content": image}])
    assert response.choices[0].message.content == f"user={json.dumps(image)};"
    assert response.usage is not None
    assert response.usage.prompt_tokens == 3


def test_several_prompts_are_completed_concurrently(client_of: ServeModels) -> None:
    client = client_of(streaming, openai.routes(openai.Completions(streaming)))
    response = client.completions.create(model="shout", prompt=["one two", "three", ""])
    assert [(item.index, item.text) for item in response.choices] == [(0, "ONE TWO "), (1, "THREE "), (2, "")]
    texts = ["", "", ""]
    ends = []
    for event in client.completions.create(model="shout", prompt=["one two", "three", ""], stream=True):
        (choice,) = event.choices
        texts[choice.index] += choice.text
        ends += [choice.index] * (choice.finish_reason == "stop")
    assert (texts, sorted(ends)) == (["ONE TWO ", "THREE ", ""], [0, 1, 2])


def test_echo_returns_the_prompt_and_the_completion(client_of: ServeModels) -> None:
    client = client_of(streaming, openai.routes(openai.Completions(streaming)))
    assert client.completions.create(model="shout", prompt="one", echo=True).choices[0].text == "oneONE "
    events = client.completions.create(model="shout", prompt="one", echo=True, stream=True)
    assert "".join(event.choices[0].text for event in events) == "oneONE "


@pytest.mark.parametrize("stop", ["O T", ["THREE", "TWO"]])
def test_stop_sequence_ends_the_text_and_the_model(client_of: ServeModels, stop: Any) -> None:
    closed = threading.Event()

    @model(name="shout")
    def endless(prompt: str) -> Iterator[str]:
        try:
            while True:
                yield "ON"
                yield "E TW"
                yield "O TH"
                yield "REE "
        finally:
            closed.set()

    client = client_of(endless, openai.routes(openai.Completions(endless), openai.Chat(endless, template)))
    text = "ONE TW" if stop == "O T" else "ONE "
    choice = client.completions.create(model="shout", prompt="", stop=stop).choices[0]
    assert (choice.text, choice.finish_reason) == (text, "stop")
    assert closed.wait(PATIENCE)
    events = client.completions.create(model="shout", prompt="", stop=stop, stream=True)
    assert "".join(event.choices[0].text for event in events) == text
    response = client.chat.completions.create(model="shout", messages=[{"role": "user", "content": "x"}], stop=stop)
    assert response.choices[0].message.content == text


def test_token_usage_is_reported_for_responses_and_streams(client_of: ServeModels) -> None:
    def count(text: str) -> int:
        return len(text.split())

    routes = openai.routes(openai.Completions(streaming, tokens=count), openai.Chat(streaming, template, tokens=count))
    client = client_of(streaming, routes)
    usage = client.completions.create(model="shout", prompt=["a b", "c"]).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 3, 6)
    options: Any = {"model": "shout", "stream": True, "stream_options": {"include_usage": True}}
    events = list(client.completions.create(prompt="a b", **options))
    assert events[-1].choices == []
    assert events[-1].usage is not None
    assert events[-1].usage.total_tokens == 4
    assert all(event.usage is None for event in events[:-1])
    chunks = list(client.chat.completions.create(messages=[{"role": "user", "content": "b"}], **options))
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 4
    plain = list(client.completions.create(model="shout", prompt="a b", stream=True))
    assert plain[-1].choices[0].finish_reason == "stop"


def test_model_sets_the_finish_reason(client_of: ServeModels) -> None:
    @model(name="shout", inputs=[TEXT], outputs=[WORD, Tensor("finish_reason", str, [1], optional=True)])
    def limited(text, ctx: Context):
        words = text[0].split()
        limit = ctx.parameters["max_tokens"]
        for word in words[:limit]:
            yield {"word": np.array([word], object)}
        yield {
            "word": np.array([""], object),
            "finish_reason": np.array(["length" if len(words) > limit else "stop"], object),
        }

    client = client_of(limited, openai.routes(openai.Completions(limited), openai.Chat(limited, template)))
    for limit, reason in ((1, "length"), (5, "stop")):
        choice = client.completions.create(model="shout", prompt="a b", max_tokens=limit).choices[0]
        assert choice.finish_reason == reason
        events = list(client.completions.create(model="shout", prompt="a b", max_tokens=limit, stream=True))
        assert events[-1].choices[0].finish_reason == reason
        response = client.chat.completions.create(
            model="shout", messages=[{"role": "u", "content": "b"}], max_completion_tokens=limit
        )
        assert response.choices[0].finish_reason == reason


def test_parameters_reach_the_model(client_of: ServeModels) -> None:
    parameters: list[dict[str, Any]] = []

    @model(name="shout")
    def record_parameters(prompt: str, ctx: Context) -> Iterator[str]:
        parameters.append(ctx.parameters)
        yield prompt

    client = client_of(
        record_parameters,
        openai.routes(openai.Completions(record_parameters), openai.Chat(record_parameters, template)),
    )
    client.completions.create(
        model="shout", prompt="p", temperature=0.5, max_tokens=7, top_p=1, seed=3, stop=["x"], user="anna", n=1,
        logit_bias={}, extra_body={"top_k": 5},
    )  # fmt: skip
    client.chat.completions.create(
        model="shout",
        messages=[{"role": "user", "content": "p"}],
        max_completion_tokens=9,
        response_format={"type": "text"},
    )
    assert parameters == [
        {"temperature": 0.5, "max_tokens": 7, "top_p": 1, "seed": 3, "user": "anna", "top_k": 5},
        {"max_completion_tokens": 9, "max_tokens": 9},
    ]


COMPLETION = "/v1/completions"
CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("path", "members", "param", "message"),
    [
        (COMPLETION, {}, "prompt", "'prompt' is missing"),
        (COMPLETION, {"prompt": [1]}, "prompt",
         "'prompt' must be text here: a string or a list of strings, not tokens"),
        (COMPLETION, {"prompt": ["a"] * 129}, "prompt", "'prompt' has 129 strings, expected 128 at most"),
        (COMPLETION, {"prompt": "a", "n": 129}, "n", "'n' is 129, expected 1 to 128"),
        (COMPLETION, {"prompt": "a", "n": True}, "n", "'n' must be an integer"),
        (COMPLETION, {"prompt": "a", "best_of": 2}, "best_of", "'best_of' other than 'n' is not supported here"),
        (COMPLETION, {"prompt": "a", "logprobs": 2}, "logprobs", "'logprobs' other than false is not supported here"),
        (COMPLETION, {"prompt": "a", "suffix": "z"}, "suffix", "'suffix' other than \"\" is not supported here"),
        (COMPLETION, {"prompt": "a", "stop": 3}, "stop", "'stop' must be a string or a list of 16 strings at most"),
        (COMPLETION, {"prompt": "a", "stream": "yes"}, "stream", "'stream' must be a boolean"),
        (COMPLETION, {"prompt": "a", "logit_bias": {"3": 1}}, "logit_bias", "'logit_bias' is not supported here"),
        (COMPLETION, {"prompt": "a", "guided": {"3": 1}}, "guided",
         "'guided' is not supported here: a parameter is a number, a string or a boolean"),
        (COMPLETION, {"prompt": "a", "temperature": -1}, "temperature", "'temperature' is -1, expected 0 or more"),
        (COMPLETION, {"prompt": "a", "top_p": 1.5}, "top_p", "'top_p' is 1.5, expected 1 or less"),
        (COMPLETION, {"prompt": "a", "max_tokens": 1.5}, "max_tokens", "'max_tokens' must be an integer"),
        (COMPLETION, {"prompt": "a", "max_tokens": 0}, "max_tokens", "'max_tokens' is 0, expected 1 or more"),
        (CHAT, {}, "messages", "'messages' is missing"),
        (CHAT, {"messages": []}, "messages", "'messages' must be a list of one message at least"),
        (CHAT, {"messages": ["hi"]}, "messages[0]", "'messages[0]' must be an object with a 'role'"),
        (CHAT, {"messages": [{"role": "user", "content": 3}]}, "messages[0].content",
         "'messages[0].content' must be a string or a list of parts"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]",
         "'messages[0].content[0]' is of the type 'image_url', which is not supported here"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text",
         "'messages[0].content[0].text' must be a string"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "sound"}]}]}, "messages[0].content[0].type",
         "'messages[0].content[0].type' is 'sound', expected 'text' or another part's type"),
        (CHAT, {"messages": [{"role": "tool", "content": "1"}]}, "messages[0].tool_call_id",
         "'messages[0].tool_call_id' must be a string: the id of the call"),
        (CHAT, {"messages": HELLO, "tools": [{"type": "function"}]}, "tools", "'tools' is not supported here"),
        (CHAT, {"messages": HELLO, "response_format": {"type": "json_object"}}, "response_format",
         "'response_format' other than {\"type\": \"text\"} is not supported here"),
        (CHAT, {"messages": HELLO, "logprobs": True}, "logprobs", "'logprobs' other than false is not supported here"),
        (CHAT, {"messages": HELLO, "n": 0}, "n", "'n' is 0, expected 1 to 128"),
        (CHAT, {"messages": HELLO, "reasoning_effort": "low"}, "reasoning_effort",
         "'reasoning_effort' is not supported here"),
        (CHAT, {"messages": HELLO, "parallel_tool_calls": False}, "parallel_tool_calls",
         "'parallel_tool_calls' other than true is not supported here"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_unsupported_options_are_rejected(
    path: str, members: dict[str, Any], param: str, message: str, stream: bool
) -> None:
    routes = openai.routes(openai.Completions(streaming), openai.Chat(streaming, template))
    with Client(streaming, routes) as client:
        response = post(client, path, {"model": "shout", "stream": stream, **members})
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    assert (response.status, response.json()) == (400, {"error": error})


def test_model_of_another_route_is_rejected(client_of: ServeModels) -> None:
    client = client_of(
        streaming,
        unary.with_options(name="other"),
        openai.routes(openai.Completions(streaming), openai.Chat(unary.with_options(name="other"), template)),
    )
    with pytest.raises(BadRequestError, match="The model 'other' is not served by /v1/completions"):
        client.completions.create(model="other", prompt="a")
    with pytest.raises(NotFoundError, match="The model 'third' does not exist"):
        client.completions.create(model="third", prompt="a")
    assert sorted(item.id for item in client.models.list()) == ["other", "shout"]


def test_error_is_a_status_before_the_first_event_and_an_event_after_it(client_of: ServeModels) -> None:
    @model(name="shout")
    def failing(prompt: str) -> Iterator[str]:
        if prompt == "at once":
            raise InvalidInput("not this")
        yield "so far"
        raise ValueError("secret")

    client = client_of(failing, openai.routes(openai.Completions(failing), openai.Chat(failing, template)))
    for stream in (False, True):
        with pytest.raises(BadRequestError, match="not this"):
            client.completions.create(model="shout", prompt="at once", stream=stream)
    with pytest.raises(InternalServerError, match="model 'shout' failed: ValueError"):
        client.completions.create(model="shout", prompt="later")
    texts = []

    def read() -> None:
        for event in client.completions.create(model="shout", prompt="later", stream=True):
            texts.append(event.choices[0].text)

    with pytest.raises(APIError, match="model 'shout' failed: ValueError"):
        read()
    assert texts == ["so far"]
    with pytest.raises(APIError, match="model 'shout' failed: ValueError"):
        list(client.chat.completions.create(model="shout", messages=HELLO, stream=True))


def test_client_disconnect_closes_the_model(client_of: ServeModels) -> None:
    closed = threading.Semaphore(0)

    @model(name="shout", instances=2)
    def endless(prompt: str) -> Iterator[str]:
        try:
            while True:
                yield "word "
        finally:
            closed.release()

    client = client_of(endless, openai.routes(openai.Completions(endless), openai.Chat(endless, template)))
    with client.completions.create(model="shout", prompt="a", stream=True) as events:
        next(iter(events))
    assert closed.acquire(timeout=PATIENCE)
    with client.completions.create(model="shout", prompt=["a", "b"], stream=True) as events:
        # Wait until both have started: a queued prompt of a disconnected client is never computed.
        started: set[int] = set()
        for event in events:
            started.add(event.choices[0].index)
            if len(started) == 2:
                break
    assert closed.acquire(timeout=PATIENCE)
    assert closed.acquire(timeout=PATIENCE)
    with client.chat.completions.create(model="shout", messages=HELLO, stream=True) as chunks:
        next(iter(chunks))
    assert closed.acquire(timeout=PATIENCE)


def test_stream_follows_the_sse_format() -> None:
    with Client(streaming, openai.routes(openai.Completions(streaming), openai.Chat(streaming, template))) as client:
        response = post(client, COMPLETION, {"model": "shout", "prompt": "é", "stream": True})
        headers = dict(response.headers)
        assert headers["content-type"] == "text/event-stream"
        assert headers["cache-control"] == "no-cache"
        *events, done, rest = response.body.decode().split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        first = json.loads(events[0].removeprefix("data: "))
        assert first["choices"] == [{"text": "É ", "index": 0, "logprobs": None, "finish_reason": None}]
        unstreamed = post(client, COMPLETION, {"model": "shout", "prompt": "é"})
        assert dict(unstreamed.headers)["content-type"] == "application/json"


def test_stream_is_sent_chunk_by_chunk(client_of: ServeModels) -> None:
    gate = threading.Event()

    @model(name="shout")
    def paused(prompt: str) -> Iterator[str]:
        yield "first"
        assert gate.wait(PATIENCE)
        yield "second"

    client = client_of(paused, openai.routes(openai.Completions(paused)))
    events = iter(client.completions.create(model="shout", prompt="a", stream=True))
    assert next(events).choices[0].text == "first"
    gate.set()
    assert next(events).choices[0].text == "second"


def test_unsuitable_models_are_rejected_at_declaration() -> None:
    numbers = model(name="numbers", inputs=[TEXT], outputs=[Tensor("y", np.float32, [1])])(lambda text: text)
    two = model(name="two", inputs=[TEXT, Tensor("b", str, [1])], outputs=[WORD])(lambda text, b: text)
    with pytest.raises(SignatureError, match=r"Completions\('numbers'\): its output: none will do"):
        openai.Completions(numbers)
    with pytest.raises(SignatureError, match=r"Completions\('two'\): its input: several will do, so name one"):
        openai.Completions(two)
    with pytest.raises(SignatureError, match=r"Completions\('two'\): input 'b' is needed too"):
        openai.Completions(two, input="text")
    with pytest.raises(SignatureError, match=r"Chat\('shout'\): its input: none will do"):
        openai.Chat(streaming)
    with pytest.raises(SignatureError, match="Chat: template must be callable"):
        openai.Chat(streaming, "{{ messages }}")


def test_metrics_count_the_route_and_the_model(client_of: ServeModels) -> None:
    client = client_of(streaming, openai.routes(openai.Completions(streaming)))
    client.completions.create(model="shout", prompt="a")
    address = str(client.base_url).removesuffix("/v1/")

    def metrics() -> str:
        with urllib.request.urlopen(f"{address}/metrics") as response:
            return str(response.read().decode())

    for line in (
        'penstock_requests_total{model="openai",version="1",protocol="http",outcome="ok"} 1',
        'penstock_requests_total{model="shout",version="1",protocol="inprocess",outcome="ok"} 1',
    ):
        until(lambda line=line: line in metrics())
