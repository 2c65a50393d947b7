"""The chat with transformers: a tiny random model, asked by the official OpenAI client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from penstock import Server
from waiting import PATIENCE, until

Load = Callable[[str], ModuleType]
RIVER: Any = [{"role": "user", "content": "the river turns"}]
TOOL: Any = {"type": "function", "function": {"name": "wheel", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def app(example: Load, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    for package in ("torch", "transformers", "jinja2"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("model")
    example("test_app").write_model(folder)
    with pytest.MonkeyPatch.context() as patch:
        app = example("app")
        patch.setattr(app, "MODEL", str(folder))
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
    assert whole.usage.prompt_tokens == 5


def test_seed_and_temperature_decide_the_answer(client: OpenAI) -> None:
    def texts(temperature: float) -> list[str]:
        answers = (ask(client, seed=seed, temperature=temperature) for seed in range(5))
        return [answer.choices[0].message.content for answer in answers]

    assert len({*texts(0)}) == 1
    sampled = texts(1.0)
    assert len({*sampled}) > 2
    assert texts(1.0) == sampled


def test_limit_of_tokens_is_the_finish_reason(client: OpenAI) -> None:
    choices = [ask(client, seed=seed, temperature=1.0, max_tokens=3) for seed in range(40)]
    reasons = {answer.choices[0].finish_reason for answer in choices}
    assert reasons == {"length", "stop"}
    for answer in choices:
        tokens = answer.usage.completion_tokens
        assert tokens == 3 if answer.choices[0].finish_reason == "length" else tokens <= 3


def test_stop_text_ends_the_answer(client: OpenAI) -> None:
    answers = (ask(client, seed=seed, temperature=1.0).choices[0].message.content for seed in range(40))
    seed, text = next((seed, text) for seed, text in enumerate(answers) if len({*text.split()}) > 3)
    word = next(word for word in text.split() if word not in text.split()[0])
    cut = ask(client, seed=seed, temperature=1.0, stop=word)
    assert cut.choices[0].message.content == text.partition(word)[0]
    assert cut.choices[0].finish_reason == "stop"


def test_tools_reach_the_template(client: OpenAI) -> None:
    assert ask(client, tools=[TOOL]).usage.prompt_tokens == 8


def test_invalid_requests_are_refused(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="the prompt has 5001 tokens, expected fewer than 4096"):
        ask(client, messages=[{"role": "user", "content": "river " * 4999}])
    # Found by the worker: the streamer must end.
    with pytest.raises(BadRequestError, match="top_k"):
        ask(client, extra_body={"top_k": -1})
    assert ask(client).usage.completion_tokens > 0


def test_generation_ends_when_the_client_leaves(
    app: ModuleType, client: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = (ask(client, seed=seed, temperature=1.0, max_tokens=8) for seed in range(40))
    seed = next(seed for seed, answer in enumerate(answers) if answer.choices[0].finish_reason == "length")
    begun: list[Any] = []

    class Held(app.Progress):  # type: ignore[name-defined,misc]
        """Generates 8 tokens, then nothing until the client has left."""

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            begun.append(self)
            if len(begun) == 8:
                assert until(lambda: self.ended or self.ctx.cancelled, "the end of the stream")
            return super().__call__(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(app, "Progress", Held)
        stream = ask(client, seed=seed, temperature=1.0, max_tokens=4000, stream=True)
        next(stream)
        stream.close()
        assert until(lambda: begun[0].ended, "the end of the handler")
    # The worker is free again.
    assert ask(client, max_tokens=1).usage.completion_tokens == 1
    assert begun[0].tokens <= 8
