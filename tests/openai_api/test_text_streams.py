"""Streams of completions, whose events the server writes itself: escapes, cut characters, ends, errors and limits."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
from openai import APIError
from openai_helpers import ServeModels, post

from penstock import Tensor, Threads, model, openai
from penstock.testing import Client
from waiting import PATIENCE, until

HELLO: Any = [{"role": "user", "content": "hello"}]
TEXT = Tensor("text", str, [1])
WORD = Tensor("word", str, [1])
REASON = Tensor("finish_reason", str, [1], optional=True)
COMPLETION, CHAT = "/v1/completions", "/v1/chat/completions"

AWKWARD = [
    'a "quoted" word',
    "back\\slash and /slash",
    "line\nfeed, tab\t, return\r\n",
    "nul\0, bell\a, escape\x1b, delete\x7f",
    "\u2028 and \u2029 end lines of JavaScript",
    "\ufeffbyte order mark",
    "é, €, 漢, \U0001f600, \U0001f469\u200d\U0001f680",
    "data: [DONE]\n\n",
    '{"choices": []}',
    " ",
]


def both(served: Any, **options: Any) -> Any:
    """Routes for completions and chats of a model."""
    template = lambda messages: str(messages[0]["content"])  # noqa: E731
    return openai.routes(openai.Completions(served, **options), openai.Chat(served, template, **options))


def texts_of(body: bytes, path: str) -> list[str]:
    """The texts of a stream's events, in order."""
    *events, done, rest = body.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    choices = [json.loads(event.removeprefix("data: "))["choices"] for event in events]
    texts = [one[0]["delta"].get("content") if path == CHAT else one[0]["text"] for one in choices if one]
    return [text for text in texts if text]


def request_of(path: str, **members: Any) -> dict[str, Any]:
    prompt = {"messages": HELLO} if path == CHAT else {"prompt": "hello"}
    return {"model": "speak", "stream": True, **prompt, **members}


@pytest.mark.parametrize("path", [COMPLETION, CHAT])
@pytest.mark.parametrize("is_async", [False, True])
def test_each_chunk_is_one_event_with_its_text(path: str, is_async: bool) -> None:
    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        yield from AWKWARD

    @model(name="speak")
    async def speak_async(prompt: str) -> AsyncIterator[str]:
        for text in AWKWARD:
            await asyncio.sleep(0)
            yield text

    served = speak_async if is_async else speak
    with Client(served, both(served)) as client:
        assert texts_of(post(client, path, request_of(path)).body, path) == AWKWARD


@pytest.mark.parametrize("path", [COMPLETION, CHAT])
def test_events_have_the_members_of_the_api(path: str) -> None:
    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        yield from ["a", "b", "c"]

    with Client(speak, both(speak)) as client:
        body = post(client, path, request_of(path)).body.decode()
    events = [json.loads(event.removeprefix("data: ")) for event in body.split("\n\n")[:-2]]
    heads = [{name: value for name, value in event.items() if name != "choices"} for event in events]
    assert heads == [heads[0]] * len(heads)
    kind = "chat.completion.chunk" if path == CHAT else "text_completion"
    assert (heads[0]["object"], heads[0]["model"]) == (kind, "speak")
    assert set(heads[0]) == {"id", "object", "created", "model"}
    choices = [event["choices"][0] for event in events]
    common = {"index": 0, "logprobs": None}
    if path == COMPLETION:
        expected = [{"text": text, **common, "finish_reason": None} for text in "abc"]
        expected.append({"text": "", **common, "finish_reason": "stop"})
    else:
        deltas = [{"role": "assistant", "content": ""}, *({"content": text} for text in "abc")]
        expected = [{"delta": delta, **common, "finish_reason": None} for delta in deltas]
        expected.append({"delta": {}, **common, "finish_reason": "stop"})
    assert choices == expected


def test_model_name_may_look_like_json(client_of: ServeModels) -> None:
    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        yield from ["one ", "two"]

    name = 'a "name"\\ {"content":""}'
    client = client_of(speak, openai.routes(openai.Completions(speak, name=name)))
    events = list(client.completions.create(model=name, prompt="a", stream=True))
    assert {event.model for event in events} == {name}
    assert "".join(event.choices[0].text for event in events) == "one two"


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_characters_may_be_split_between_chunks(size: int) -> None:
    said = "é€\U0001f600\U0001f469\u200d\U0001f680!"

    @model(name="speak", inputs=[TEXT], outputs=[Tensor("word", "BYTES", [1])])
    def speak(text):
        data = said.encode()
        for start in range(0, len(data), size):
            yield np.array([data[start : start + size]], object)

    with Client(speak, openai.routes(openai.Completions(speak))) as client:
        assert "".join(texts_of(post(client, COMPLETION, request_of(COMPLETION)).body, COMPLETION)) == said
        whole = post(client, COMPLETION, request_of(COMPLETION, stream=False)).json()
        assert whole["choices"][0]["text"] == said


def test_invalid_bytes_are_replaced() -> None:
    @model(name="speak", inputs=[TEXT], outputs=[Tensor("word", "BYTES", [1])])
    def speak(text):
        # The second ends within a character, and the stream there too.
        for chunk in (b"a\xff\xed\xa0\x80b", b"c", b"\xf0\x9f"):
            yield np.array([chunk], object)

    with Client(speak, openai.routes(openai.Completions(speak))) as client:
        texts = texts_of(post(client, COMPLETION, request_of(COMPLETION)).body, COMPLETION)
    assert texts == [b"a\xff\xed\xa0\x80b".decode(errors="replace"), "c", "\ufffd"]


@pytest.mark.parametrize(
    ("chunks", "stop", "texts", "ended"),
    [
        (["one ", "STOP", " two"], "STOP", ["one "], True),
        (["one ", "ST", "OP two"], "STOP", ["one "], True),
        (["one ", "ST", "ART"], "STOP", ["one ", "START"], False),
        (["one ", "ST"], "STOP", ["one ", "ST"], False),
        (["aab"], ["ab", "aab"], [], True),
        (["one ", "\U0001f600", "end"], ["\U0001f600e"], ["one "], True),
        (["one ", "two"], [""], ["one ", "two"], False),
    ],
)
@pytest.mark.parametrize("path", [COMPLETION, CHAT])
def test_stop_text_is_found_across_chunks(
    path: str, chunks: list[str], stop: Any, texts: list[str], ended: bool
) -> None:
    closed = threading.Event()
    completed = threading.Event()

    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        try:
            yield from chunks
            completed.set()
            while ended:
                yield "more"
        finally:
            closed.set()

    with Client(speak, both(speak)) as client:
        assert texts_of(post(client, path, request_of(path, stop=stop)).body, path) == texts
        assert closed.wait(PATIENCE)
        assert ended or completed.is_set()


@pytest.mark.parametrize("path", [COMPLETION, CHAT])
def test_stream_without_text_has_a_role_and_an_end(path: str) -> None:
    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        yield from ["", ""]

    with Client(speak, both(speak)) as client:
        body = post(client, path, request_of(path)).body
    assert texts_of(body, path) == []
    *begun, last = [json.loads(event.removeprefix(b"data: "))["choices"][0] for event in body.split(b"\n\n")[:-2]]
    assert last["finish_reason"] == "stop"
    deltas = [] if path == COMPLETION else [{"role": "assistant", "content": ""}]
    assert [choice["delta"] for choice in begun] == deltas


@pytest.mark.parametrize("path", [COMPLETION, CHAT])
def test_usage_counts_the_whole_text_of_a_stream(path: str) -> None:
    counted: list[str] = []

    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        yield from (f"{number} " for number in range(300))

    def count(text: str) -> int:
        counted.append(text)
        return len(text.split())

    with Client(speak, both(speak, tokens=count)) as client:
        body = post(client, path, request_of(path, stream_options={"include_usage": True})).body
        events = [json.loads(event.removeprefix("data: ")) for event in body.decode().split("\n\n")[:-2]]
        assert [event["usage"] for event in events[:-1]] == [None] * (len(events) - 1)
        assert events[-1]["usage"] == {"prompt_tokens": 1, "completion_tokens": 300, "total_tokens": 301}
        assert "".join(texts_of(body, path)) == counted[-1] == "".join(f"{number} " for number in range(300))
        counted.clear()
        post(client, path, request_of(path))
        # For the metrics.
        assert len(counted) == 2
        metrics = client.get("/metrics").body.decode()
    assert 'penstock_prompt_tokens_total{model="speak",version="1"} 2' in metrics
    assert 'penstock_completion_tokens_total{model="speak",version="1"} 600' in metrics


def test_finish_reason_comes_from_the_model() -> None:
    @model(name="speak", inputs=[TEXT], outputs=[WORD, REASON])
    def speak(text):
        for word in ("one ", "two "):
            yield {"word": np.array([word], object)}
        yield {"word": np.array([""], object), "finish_reason": np.array(["length"], object)}

    with Client(speak, openai.routes(openai.Completions(speak))) as client:
        body = post(client, COMPLETION, request_of(COMPLETION)).body
    last = json.loads(body.decode().split("\n\n")[-3].removeprefix("data: "))
    assert (texts_of(body, COMPLETION), last["choices"][0]["finish_reason"]) == (["one ", "two "], "length")


@pytest.mark.parametrize("after", [1, 200])
def test_error_is_an_event_after_all_texts_before_it(client_of: ServeModels, after: int) -> None:
    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        yield from (f"{number} " for number in range(after))
        raise ValueError("secret")

    client = client_of(speak, both(speak))
    texts = []

    def read() -> None:
        for event in client.chat.completions.create(model="speak", messages=HELLO, stream=True):
            texts.append(event.choices[0].delta.content)

    with pytest.raises(APIError, match="model 'speak' failed: ValueError"):
        read()
    assert texts == ["", *(f"{number} " for number in range(after))]


def test_client_that_leaves_late_closes_the_model(client_of: ServeModels) -> None:
    closed = threading.Event()

    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        try:
            while True:
                yield "word "
        finally:
            closed.set()

    client = client_of(speak, both(speak))
    with client.chat.completions.create(model="speak", messages=HELLO, stream=True) as events:
        for _ in zip(events, range(500), strict=False):
            pass
    assert closed.wait(PATIENCE)


def test_model_waits_for_a_client_that_does_not_read(client_of: ServeModels) -> None:
    yielded = 0
    many = 200_000

    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        nonlocal yielded
        for _ in range(many):
            yielded += 1
            yield "word " * 40

    client = client_of(speak, both(speak))
    with client.chat.completions.create(model="speak", messages=HELLO, stream=True) as events:
        next(iter(events))
        seen = -1

        def rests() -> bool:
            nonlocal seen
            before, seen = seen, yielded
            return before == seen

        until(rests)
        assert yielded < many


def test_deadline_ends_a_stream_with_an_error_event(client_of: ServeModels) -> None:
    over = threading.Event()

    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        yield "first "
        yield "second "
        over.wait(PATIENCE)

    client = client_of(speak, both(speak), request_timeout=0.5)
    texts = []

    def read() -> None:
        for event in client.completions.create(model="speak", prompt="a", stream=True):
            texts.append(event.choices[0].text)

    with pytest.raises(APIError, match="model 'speak' did not answer within the deadline"):
        read()
    over.set()
    assert texts == ["first ", "second "]


def test_texts_within_the_flush_interval_leave_together() -> None:
    count = 200

    @model(name="speak", instances=Threads(1))
    def speak(prompt: str) -> Iterator[str]:
        yield from (f"{number} " for number in range(count))

    with Client(speak, both(speak), flush_interval=0.05) as client:
        body = post(client, CHAT, request_of(CHAT)).body
    assert texts_of(body, CHAT) == [f"{number} " for number in range(count)]


def test_many_streams_at_once_keep_their_texts_apart(client_of: ServeModels) -> None:
    @model(name="speak", instances=Threads(8))
    def speak(prompt: str) -> Iterator[str]:
        yield from (f"{prompt}{number} " for number in range(100))

    client = client_of(speak, both(speak))
    results: dict[str, str] = {}

    def read(name: str) -> None:
        events = client.completions.create(model="speak", prompt=name, stream=True)
        results[name] = "".join(event.choices[0].text for event in events)

    threads = [threading.Thread(target=read, args=(f"{letter}-",)) for letter in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert results == {f"{letter}-": "".join(f"{letter}-{number} " for number in range(100)) for letter in "abcdefgh"}


def test_several_prompts_are_streamed_with_usage(client_of: ServeModels) -> None:
    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        for word in prompt.split():
            yield word.upper() + " "

    client = client_of(speak, openai.routes(openai.Completions(speak, tokens=lambda text: len(text.split()))))
    options: Any = {"model": "speak", "stream": True, "stream_options": {"include_usage": True}, "stop": "E"}
    texts = ["", ""]
    reasons = []
    usage = None
    for event in client.completions.create(prompt=["a b", "c d e f"], **options):
        for choice in event.choices:
            texts[choice.index] += choice.text
            reasons += [choice.finish_reason] * (choice.finish_reason is not None)
        usage = event.usage or usage
    assert (texts, reasons) == (["A B ", "C D "], ["stop", "stop"])
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (6, 4)


def test_metrics_count_a_stream_once(client_of: ServeModels) -> None:
    @model(name="speak")
    def speak(prompt: str) -> Iterator[str]:
        yield from ("one ", "two ", "three ")

    client = client_of(speak, both(speak))
    list(client.chat.completions.create(model="speak", messages=HELLO, stream=True))
    address = str(client.base_url).removesuffix("/v1/")
    lines = (
        'penstock_requests_total{model="openai",version="1",protocol="http",outcome="ok"} 1',
        'penstock_requests_total{model="speak",version="1",protocol="inprocess",outcome="ok"} 1',
        'penstock_in_flight{model="openai",version="1"} 0',
        'penstock_in_flight{model="speak",version="1"} 0',
    )

    def are_counted() -> bool:
        with urllib.request.urlopen(f"{address}/metrics") as response:
            found = response.read().decode()
        return all(line in found for line in lines)

    until(are_counted)
