"""`openai.Completions` and `openai.Chat`, asked by OpenAI's own client."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
from asking_openai import Ask, post
from openai import APIError, BadRequestError, InternalServerError, NotFoundError

from penstock import Batching, Context, Final, InvalidInput, SignatureError, Tensor, model, openai
from penstock.testing import Client
from waiting import PATIENCE, until

TEXT = Tensor("text", str, [1])
WORD = Tensor("word", str, [1])


@model(name="tell")
def streaming(prompt: str) -> Iterator[str]:
    for word in prompt.split():
        yield word.upper() + " "


@model(name="tell")
async def on_a_loop(prompt: str) -> AsyncIterator[str]:
    for word in prompt.split():
        await asyncio.sleep(0)
        yield word.upper() + " "


@model(name="tell")
def at_once(prompt: str) -> str:
    return "".join(word.upper() + " " for word in prompt.split())


@model(name="tell", inputs=[TEXT], outputs=[WORD], batching=Batching(max_size=8))
def in_batches(text):
    return np.array([[at_once(one)] for one in text[:, 0]], object)


@model(name="tell", inputs=[TEXT], outputs=[WORD], batching=Batching(max_size=8))
def streaming_batches(text):
    words = [one.split() for one in text[:, 0]]
    for step in range(max(map(len, words)) + 1):
        yield [
            Final() if step == len(row) else np.array([row[step].upper() + " "], object) if step < len(row) else None
            for row in words
        ]


@model(name="tell", inputs=[TEXT], outputs=[Tensor("word", "BYTES", [1])])
def in_bytes(text):
    # Characters in two halves.
    for byte in at_once(text[0]).encode():
        yield np.array([bytes([byte])], object)


MODELS = [streaming, on_a_loop, at_once, in_batches, streaming_batches, in_bytes]
NAMES = ["streaming", "on_a_loop", "at_once", "in_batches", "streaming_batches", "in_bytes"]


def template(messages: list[dict[str, Any]]) -> str:
    return " ".join(f"{one['role']}: {one['content']}" for one in messages)


@pytest.mark.parametrize("served", MODELS, ids=NAMES)
def test_a_prompt_is_completed(client_of: Ask, served: Any) -> None:
    client = client_of(served, openai.routes(openai.Completions(served)))
    answer = client.completions.create(model="tell", prompt="one twö")
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    (choice,) = answer.choices
    assert (choice.text, choice.finish_reason, choice.index) == ("ONE TWÖ ", "stop", 0)
    assert answer.usage is not None
    assert answer.usage.total_tokens == 0

    events = list(client.completions.create(model="tell", prompt="one twö", stream=True))
    assert "".join(event.choices[0].text for event in events) == "ONE TWÖ "
    assert [event.choices[0].finish_reason for event in events] == [None] * (len(events) - 1) + ["stop"]
    assert len({event.id for event in events}) == 1


@pytest.mark.parametrize("served", MODELS, ids=NAMES)
def test_a_chat_is_answered(client_of: Ask, served: Any) -> None:
    client = client_of(served, openai.routes(openai.Chat(served, template)))
    messages: Any = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "there"}]},
    ]
    answer = client.chat.completions.create(model="tell", messages=messages)
    assert answer.object == "chat.completion"
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "SYSTEM: BE BRIEF USER: HI THERE ")
    assert choice.finish_reason == "stop"

    events = list(client.chat.completions.create(model="tell", messages=messages, stream=True))
    assert events[0].choices[0].delta.role == "assistant"
    assert "".join(event.choices[0].delta.content or "" for event in events) == "SYSTEM: BE BRIEF USER: HI THERE "
    assert events[-1].choices[0].finish_reason == "stop"
    assert {event.object for event in events} == {"chat.completion.chunk"}


def test_a_model_may_take_the_messages_themselves(client_of: Ask) -> None:
    @model(name="talk")
    def talk(messages: list[dict[str, Any]]) -> Iterator[str]:
        for one in messages:
            yield f"{one['role']}={json.dumps(one['content'])};"

    client = client_of(talk, openai.routes(openai.Chat(talk, tokens=lambda text: len(text.split()))))
    image = [{"type": "text", "text": "what is this"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    answer = client.chat.completions.create(model="talk", messages=[{"role": "user", "content": image}])
    assert answer.choices[0].message.content == f"user={json.dumps(image)};"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 3


def test_several_prompts_are_completed_beside_each_other(client_of: Ask) -> None:
    client = client_of(streaming, openai.routes(openai.Completions(streaming)))
    answer = client.completions.create(model="tell", prompt=["one two", "three", ""])
    assert [(one.index, one.text) for one in answer.choices] == [(0, "ONE TWO "), (1, "THREE "), (2, "")]
    texts = ["", "", ""]
    ends = []
    for event in client.completions.create(model="tell", prompt=["one two", "three", ""], stream=True):
        (choice,) = event.choices
        texts[choice.index] += choice.text
        ends += [choice.index] * (choice.finish_reason == "stop")
    assert (texts, sorted(ends)) == (["ONE TWO ", "THREE ", ""], [0, 1, 2])


def test_an_echo_is_the_prompt_and_what_follows(client_of: Ask) -> None:
    client = client_of(streaming, openai.routes(openai.Completions(streaming)))
    assert client.completions.create(model="tell", prompt="one", echo=True).choices[0].text == "oneONE "
    events = client.completions.create(model="tell", prompt="one", echo=True, stream=True)
    assert "".join(event.choices[0].text for event in events) == "oneONE "


@pytest.mark.parametrize("stop", ["O T", ["THREE", "TWO"]])
def test_a_stop_ends_the_text_and_the_model(client_of: Ask, stop: Any) -> None:
    closed = threading.Event()

    @model(name="tell")
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
    choice = client.completions.create(model="tell", prompt="", stop=stop).choices[0]
    assert (choice.text, choice.finish_reason) == (text, "stop")
    assert closed.wait(PATIENCE)
    events = client.completions.create(model="tell", prompt="", stop=stop, stream=True)
    assert "".join(event.choices[0].text for event in events) == text
    answer = client.chat.completions.create(model="tell", messages=[{"role": "user", "content": "x"}], stop=stop)
    assert answer.choices[0].message.content == text


def test_tokens_are_counted_and_told_with_a_stream(client_of: Ask) -> None:
    def count(text: str) -> int:
        return len(text.split())

    routes = openai.routes(openai.Completions(streaming, tokens=count), openai.Chat(streaming, template, tokens=count))
    client = client_of(streaming, routes)
    usage = client.completions.create(model="tell", prompt=["a b", "c"]).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 3, 6)
    asked: Any = {"model": "tell", "stream": True, "stream_options": {"include_usage": True}}
    events = list(client.completions.create(prompt="a b", **asked))
    assert events[-1].choices == []
    assert events[-1].usage is not None
    assert events[-1].usage.total_tokens == 4
    assert all(event.usage is None for event in events[:-1])
    chunks = list(client.chat.completions.create(messages=[{"role": "user", "content": "b"}], **asked))
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 4
    plain = list(client.completions.create(model="tell", prompt="a b", stream=True))
    assert plain[-1].choices[0].finish_reason == "stop"


def test_a_model_says_why_it_ended(client_of: Ask) -> None:
    @model(name="tell", inputs=[TEXT], outputs=[WORD, Tensor("finish_reason", str, [1], optional=True)])
    def limited(text, ctx: Context):
        words = text[0].split()
        most = ctx.parameters["max_tokens"]
        for word in words[:most]:
            yield {"word": np.array([word], object)}
        yield {
            "word": np.array([""], object),
            "finish_reason": np.array(["length" if len(words) > most else "stop"], object),
        }

    client = client_of(limited, openai.routes(openai.Completions(limited), openai.Chat(limited, template)))
    for most, reason in ((1, "length"), (5, "stop")):
        choice = client.completions.create(model="tell", prompt="a b", max_tokens=most).choices[0]
        assert choice.finish_reason == reason
        events = list(client.completions.create(model="tell", prompt="a b", max_tokens=most, stream=True))
        assert events[-1].choices[0].finish_reason == reason
        answer = client.chat.completions.create(
            model="tell", messages=[{"role": "u", "content": "b"}], max_completion_tokens=most
        )
        assert answer.choices[0].finish_reason == reason


def test_parameters_reach_the_model(client_of: Ask) -> None:
    seen: list[dict[str, Any]] = []

    @model(name="tell")
    def looks(prompt: str, ctx: Context) -> Iterator[str]:
        seen.append(ctx.parameters)
        yield prompt

    client = client_of(looks, openai.routes(openai.Completions(looks), openai.Chat(looks, template)))
    client.completions.create(
        model="tell", prompt="p", temperature=0.5, max_tokens=7, top_p=1, seed=3, stop=["x"], user="anna", n=1,
        logit_bias={}, extra_body={"top_k": 5},
    )  # fmt: skip
    client.chat.completions.create(
        model="tell",
        messages=[{"role": "user", "content": "p"}],
        max_completion_tokens=9,
        response_format={"type": "text"},
    )
    assert seen == [
        {"temperature": 0.5, "max_tokens": 7, "top_p": 1, "seed": 3, "user": "anna", "top_k": 5},
        {"max_completion_tokens": 9, "max_tokens": 9},
    ]


COMPLETION = "/v1/completions"
CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("path", "said", "param", "message"),
    [
        (COMPLETION, {}, "prompt", "'prompt' is missing"),
        (COMPLETION, {"prompt": [1]}, "prompt",
         "'prompt' must be text here: a string or a list of strings, not tokens"),
        (COMPLETION, {"prompt": ["a"] * 129}, "prompt", "'prompt' has 129 strings, expected 128 at most"),
        (COMPLETION, {"prompt": "a", "n": 2}, "n", "'n' other than 1 is not supported here"),
        (COMPLETION, {"prompt": "a", "n": True}, "n", "'n' other than 1 is not supported here"),
        (COMPLETION, {"prompt": "a", "best_of": 2}, "best_of", "'best_of' other than 1 is not supported here"),
        (COMPLETION, {"prompt": "a", "logprobs": 2}, "logprobs", "'logprobs' is not supported here"),
        (COMPLETION, {"prompt": "a", "suffix": "z"}, "suffix", "'suffix' other than \"\" is not supported here"),
        (COMPLETION, {"prompt": "a", "stop": 3}, "stop", "'stop' must be a string or a list of 16 strings at most"),
        (COMPLETION, {"prompt": "a", "stream": "yes"}, "stream", "'stream' must be a boolean"),
        (COMPLETION, {"prompt": "a", "logit_bias": {"3": 1}}, "logit_bias",
         "'logit_bias' is not supported here: a parameter is a number, a string or a boolean"),
        (CHAT, {}, "messages", "'messages' is missing"),
        (CHAT, {"messages": []}, "messages", "'messages' must be a list of one message at least"),
        (CHAT, {"messages": ["hi"]}, "messages[0]", "'messages[0]' must be an object with a 'role'"),
        (CHAT, {"messages": [{"role": "user", "content": 3}]}, "messages[0].content",
         "'messages[0].content' must be a string or a list of parts"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content",
         "'messages[0].content' has a part that is not text, which is not supported here"),
        (CHAT, {"messages": HELLO, "tools": [{"type": "function"}]}, "tools", "'tools' is not supported here"),
        (CHAT, {"messages": HELLO, "response_format": {"type": "json_object"}}, "response_format",
         "'response_format' other than {\"type\": \"text\"} is not supported here"),
        (CHAT, {"messages": HELLO, "logprobs": True}, "logprobs", "'logprobs' other than false is not supported here"),
        (CHAT, {"messages": HELLO, "n": 3}, "n", "'n' other than 1 is not supported here"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_there_is_said(path: str, said: dict[str, Any], param: str, message: str, stream: bool) -> None:
    routes = openai.routes(openai.Completions(streaming), openai.Chat(streaming, template))
    with Client(streaming, routes) as client:
        answer = post(client, path, {"model": "tell", "stream": stream, **said})
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    assert (answer.status, answer.json()) == (400, {"error": error})


def test_a_model_of_another_route_is_named_as_such(client_of: Ask) -> None:
    client = client_of(
        streaming,
        at_once.with_options(name="other"),
        openai.routes(openai.Completions(streaming), openai.Chat(at_once.with_options(name="other"), template)),
    )
    with pytest.raises(BadRequestError, match="The model 'other' is not served by /v1/completions"):
        client.completions.create(model="other", prompt="a")
    with pytest.raises(NotFoundError, match="The model 'third' does not exist"):
        client.completions.create(model="third", prompt="a")
    assert sorted(one.id for one in client.models.list()) == ["other", "tell"]


def test_an_error_has_a_status_before_the_first_event_and_is_one_after_it(client_of: Ask) -> None:
    @model(name="tell")
    def fails(prompt: str) -> Iterator[str]:
        if prompt == "at once":
            raise InvalidInput("not this")
        yield "so far"
        raise ValueError("secret")

    client = client_of(fails, openai.routes(openai.Completions(fails), openai.Chat(fails, template)))
    for stream in (False, True):
        with pytest.raises(BadRequestError, match="not this"):
            client.completions.create(model="tell", prompt="at once", stream=stream)
    with pytest.raises(InternalServerError, match="model 'tell' failed: ValueError"):
        client.completions.create(model="tell", prompt="later")
    texts = []

    def read() -> None:
        for event in client.completions.create(model="tell", prompt="later", stream=True):
            texts.append(event.choices[0].text)

    with pytest.raises(APIError, match="model 'tell' failed: ValueError"):
        read()
    assert texts == ["so far"]
    with pytest.raises(APIError, match="model 'tell' failed: ValueError"):
        list(client.chat.completions.create(model="tell", messages=HELLO, stream=True))


def test_a_client_that_leaves_closes_the_model(client_of: Ask) -> None:
    closed = threading.Semaphore(0)

    @model(name="tell", instances=2)
    def endless(prompt: str) -> Iterator[str]:
        try:
            while True:
                yield "word "
        finally:
            closed.release()

    client = client_of(endless, openai.routes(openai.Completions(endless), openai.Chat(endless, template)))
    with client.completions.create(model="tell", prompt="a", stream=True) as events:
        next(iter(events))
    assert closed.acquire(timeout=PATIENCE)
    with client.completions.create(model="tell", prompt=["a", "b"], stream=True) as events:
        # Both have begun: a prompt that still waits when the client leaves is never computed.
        begun: set[int] = set()
        for event in events:
            begun.add(event.choices[0].index)
            if len(begun) == 2:
                break
    assert closed.acquire(timeout=PATIENCE)
    assert closed.acquire(timeout=PATIENCE)
    with client.chat.completions.create(model="tell", messages=HELLO, stream=True) as chunks:
        next(iter(chunks))
    assert closed.acquire(timeout=PATIENCE)


def test_events_are_what_the_api_says() -> None:
    with Client(streaming, openai.routes(openai.Completions(streaming), openai.Chat(streaming, template))) as client:
        answer = post(client, COMPLETION, {"model": "tell", "prompt": "é", "stream": True})
        headers = dict(answer.headers)
        assert headers["content-type"] == "text/event-stream"
        assert headers["cache-control"] == "no-cache"
        *events, done, rest = answer.body.decode().split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        first = json.loads(events[0].removeprefix("data: "))
        assert first["choices"] == [{"text": "É ", "index": 0, "logprobs": None, "finish_reason": None}]
        whole = post(client, COMPLETION, {"model": "tell", "prompt": "é"})
        assert dict(whole.headers)["content-type"] == "application/json"


def test_a_stream_comes_piece_by_piece(client_of: Ask) -> None:
    go = threading.Event()

    @model(name="tell")
    def halts(prompt: str) -> Iterator[str]:
        yield "first"
        assert go.wait(PATIENCE)
        yield "second"

    client = client_of(halts, openai.routes(openai.Completions(halts)))
    events = iter(client.completions.create(model="tell", prompt="a", stream=True))
    assert next(events).choices[0].text == "first"
    go.set()
    assert next(events).choices[0].text == "second"


def test_what_cannot_complete_is_refused_at_once() -> None:
    numbers = model(name="numbers", inputs=[TEXT], outputs=[Tensor("y", np.float32, [1])])(lambda text: text)
    two = model(name="two", inputs=[TEXT, Tensor("b", str, [1])], outputs=[WORD])(lambda text, b: text)
    with pytest.raises(SignatureError, match=r"Completions\('numbers'\): its output: none will do"):
        openai.Completions(numbers)
    with pytest.raises(SignatureError, match=r"Completions\('two'\): its input: several will do, so name one"):
        openai.Completions(two)
    with pytest.raises(SignatureError, match=r"Completions\('two'\): input 'b' is needed too"):
        openai.Completions(two, input="text")
    with pytest.raises(SignatureError, match=r"Chat\('tell'\): its input: none will do"):
        openai.Chat(streaming)
    with pytest.raises(SignatureError, match="Chat: template must be callable"):
        openai.Chat(streaming, "{{ messages }}")


def test_metrics_have_the_route_and_the_model(client_of: Ask) -> None:
    client = client_of(streaming, openai.routes(openai.Completions(streaming)))
    client.completions.create(model="tell", prompt="a")
    address = str(client.base_url).removesuffix("/v1/")

    def metrics() -> str:
        with urllib.request.urlopen(f"{address}/metrics") as answer:
            return str(answer.read().decode())

    for line in (
        'penstock_requests_total{model="openai",version="1",protocol="http",outcome="ok"} 1',
        'penstock_requests_total{model="tell",version="1",protocol="inprocess",outcome="ok"} 1',
    ):
        until(lambda line=line: line in metrics())
