"""The chat with llama.cpp: a tiny random model, asked by the official OpenAI client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from penstock import Server
from waiting import PATIENCE, until

Load = Callable[[str], ModuleType]
RIVER: Any = [{"role": "user", "content": "the river"}]
PLACE = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": PLACE}}


@pytest.fixture(scope="module")
def app(example: Load, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    for package in ("llama_cpp", "gguf"):
        pytest.importorskip(package)
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    example("test_app").write_model(path)
    with pytest.MonkeyPatch.context() as patch:
        app = example("app")
        patch.setattr(app, "MODEL", str(path))
        patch.setattr(app, "CONTEXT", 0)
        yield app


@pytest.fixture(scope="module")
def client(app: ModuleType) -> Iterator[OpenAI]:
    with (
        Server(app.Chat, app.api, http="127.0.0.1:0", grpc=None) as server,
        OpenAI(base_url=f"{server.http_url}/v1", api_key="-", max_retries=0, timeout=PATIENCE) as client,
    ):
        yield client


def ask(client: OpenAI, **members: Any) -> Any:
    return client.chat.completions.create(**{"model": "chat", "messages": RIVER, "max_tokens": 20, **members})


def test_stream_has_the_text_and_usage_of_the_whole_answer(client: OpenAI) -> None:
    whole = ask(client, seed=7, temperature=1.0)
    stream = [*ask(client, seed=7, temperature=1.0, stream=True, stream_options={"include_usage": True})]
    texts = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content
    assert sum(map(bool, texts)) > 1
    assert stream[-1].usage == whole.usage
    assert whole.usage.prompt_tokens == ask(client, max_tokens=1).usage.prompt_tokens > 0


def test_limit_of_tokens_is_the_finish_reason(client: OpenAI) -> None:
    answers = [ask(client, seed=seed, temperature=2.0, max_tokens=30) for seed in range(20)]
    assert "length" in {answer.choices[0].finish_reason for answer in answers}
    for answer in answers:
        # The random bytes at the limit may begin a character, which llama.cpp completes.
        expected = range(30, 40) if answer.choices[0].finish_reason == "length" else range(1, 40)
        assert answer.usage.completion_tokens in expected


def test_seed_decides_the_answer(client: OpenAI) -> None:
    first, second = ([ask(client, seed=seed, temperature=1.0) for seed in range(4)] for _ in range(2))
    assert [one.choices[0].message.content for one in first] == [one.choices[0].message.content for one in second]
    assert len({one.choices[0].message.content for one in first}) > 1


def test_form_of_the_answer_is_a_grammar(client: OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}}
    for seed in range(3):
        answer = ask(client, seed=seed, temperature=1.0, response_format=form, max_tokens=200)
        if answer.choices[0].finish_reason == "stop":
            assert json.loads(answer.choices[0].message.content)["city"] in ("Oslo", "Rome")
        else:
            # White space is valid JSON too.
            assert answer.choices[0].message.content.startswith("{")


@pytest.mark.parametrize("stream", [False, True])
def test_named_tool_is_called(client: OpenAI, stream: bool) -> None:
    members: Any = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "weather"}}}
    if stream:
        chunks = [*ask(client, seed=1, stream=True, max_tokens=200, **members)]
        parts = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
        assert [part.function.name for part in parts if part.function.name] == ["weather"]
        arguments = "".join(part.function.arguments or "" for part in parts)
        reason = chunks[-1].choices[0].finish_reason
    else:
        (choice,) = ask(client, seed=1, max_tokens=200, **members).choices
        (call,) = choice.message.tool_calls
        arguments, reason = call.function.arguments, choice.finish_reason
        assert call.function.name == "weather"
    assert reason == "tool_calls"
    assert arguments.startswith("{")


def test_tools_reach_the_template(client: OpenAI) -> None:
    without = ask(client).usage.prompt_tokens
    assert ask(client, tools=[TOOL]).usage.prompt_tokens > without
    assert ask(client, tools=[TOOL], tool_choice="none").usage.prompt_tokens == without


def test_invalid_requests_are_refused(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="exceed context window of 2048"):
        ask(client, messages=[{"role": "user", "content": "river " * 2048}])
    with pytest.raises(BadRequestError, match="tool_choice 'required' is not supported here"):
        ask(client, tools=[TOOL], tool_choice="required")
    assert ask(client).usage.completion_tokens > 0


def test_generation_ends_when_the_client_leaves(
    app: ModuleType, client: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []

    class Seen(app.TokenCount):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            begun.append(self)

    monkeypatch.setattr(app, "TokenCount", Seen)
    members = {"temperature": 1.0, "max_tokens": 1500, "extra_body": {"repeat_penalty": 0.5}}
    stream = ask(client, stream=True, **members)
    next(stream)
    stream.close()
    # The instance is free again.
    assert until(lambda: ask(client, max_tokens=1).usage.completion_tokens == 1, "an answer")
    assert begun[0].completion < 1500
