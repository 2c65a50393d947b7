"""Texts of requests that are none: halves of surrogate pairs, in each member."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from penstock import Tensor, model, openai
from penstock.testing import Client

HALF = "a\ud800"


@model
def tell(prompt: str) -> Iterator[str]:
    yield prompt


@model
def discuss(messages: list[dict[str, Any]]) -> Iterator[str]:
    yield json.dumps(messages)


@model(inputs=[Tensor("text", str, [-1])], outputs=[Tensor("vector", np.float32, [-1, 2])])
def embed(text):
    return np.ones((len(text), 2), np.float32)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    served = openai.routes(openai.Completions(tell), openai.Chat(discuss), openai.Embeddings(embed))
    with Client(tell, discuss, embed, served) as client:
        yield client


def says(content: Any, role: str = "user") -> list[Any]:
    return [{"role": "user", "content": "a"}, {"role": role, "content": content}]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "more", "param"),
    [
        ("completions", {"prompt": HALF}, "prompt"),
        ("completions", {"prompt": ["a", HALF]}, "prompt[1]"),
        ("completions", {"model": HALF}, "model"),
        ("completions", {"user": HALF}, "user"),
        ("completions", {"stop": [HALF]}, "stop[0]"),
        ("completions", {"suffix": HALF}, "suffix"),
        ("completions", {"metadata": {"a": HALF}}, "metadata.a"),
        ("completions", {"own": HALF}, "own"),
        ("completions", {HALF: 1}, "body"),
        ("chat/completions", {"messages": says(HALF)}, "messages[1].content"),
        ("chat/completions", {"messages": says([{"type": "text", "text": HALF}])}, "messages[1].content[0].text"),
        ("chat/completions", {"messages": says("a", HALF)}, "messages[1].role"),
        ("embeddings", {"input": HALF}, "input"),
        ("embeddings", {"input": ["a", HALF]}, "input[1]"),
    ],
)
def test_halves_of_pairs_are_refused_by_name(
    client: Client, path: str, more: dict[str, Any], param: str, stream: bool
) -> None:
    named = {"completions": "tell", "chat/completions": "discuss", "embeddings": "embed"}[path]
    body = {"model": named, "prompt": "a", "messages": says("a"), "input": "a", "stream": stream, **more}
    answer = client.post(f"/v1/{path}", json.dumps(body))
    message = f"'{param}' has half of a surrogate pair, expected Unicode text"
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    assert (answer.status, answer.json()) == (400, {"error": error})


def test_whole_pairs_are_text(client: Client) -> None:
    answer = client.post("/v1/completions", '{"model": "tell", "prompt": "\\ud83d\\ude00"}')
    assert answer.json()["choices"][0]["text"] == "\U0001f600"
