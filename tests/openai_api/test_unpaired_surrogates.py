"""Unpaired surrogates are rejected in every member of a request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from penstock import Tensor, model, openai
from penstock.testing import Client

UNPAIRED = "a\ud800"


@model
def complete(prompt: str) -> Iterator[str]:
    yield prompt


@model
def discuss(messages: list[dict[str, Any]]) -> Iterator[str]:
    yield json.dumps(messages)


@model(inputs=[Tensor("text", str, [-1])], outputs=[Tensor("vector", np.float32, [-1, 2])])
def embed(text):
    return np.ones((len(text), 2), np.float32)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    served = openai.routes(openai.Completions(complete), openai.Chat(discuss), openai.Embeddings(embed))
    with Client(complete, discuss, embed, served) as client:
        yield client


def messages_of(content: Any, role: str = "user") -> list[Any]:
    return [{"role": "user", "content": "a"}, {"role": role, "content": content}]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "members", "param"),
    [
        ("completions", {"prompt": UNPAIRED}, "prompt"),
        ("completions", {"prompt": ["a", UNPAIRED]}, "prompt[1]"),
        ("completions", {"model": UNPAIRED}, "model"),
        ("completions", {"user": UNPAIRED}, "user"),
        ("completions", {"stop": [UNPAIRED]}, "stop[0]"),
        ("completions", {"suffix": UNPAIRED}, "suffix"),
        ("completions", {"metadata": {"a": UNPAIRED}}, "metadata.a"),
        ("completions", {"own": UNPAIRED}, "own"),
        ("completions", {UNPAIRED: 1}, "body"),
        ("chat/completions", {"messages": messages_of(UNPAIRED)}, "messages[1].content"),
        (
            "chat/completions",
            {"messages": messages_of([{"type": "text", "text": UNPAIRED}])},
            "messages[1].content[0].text",
        ),
        ("chat/completions", {"messages": messages_of("a", UNPAIRED)}, "messages[1].role"),
        ("embeddings", {"input": UNPAIRED}, "input"),
        ("embeddings", {"input": ["a", UNPAIRED]}, "input[1]"),
    ],
)
def test_unpaired_surrogates_are_rejected_by_name(
    client: Client, path: str, members: dict[str, Any], param: str, stream: bool
) -> None:
    model_name = {"completions": "complete", "chat/completions": "discuss", "embeddings": "embed"}[path]
    body = {"model": model_name, "prompt": "a", "messages": messages_of("a"), "input": "a", "stream": stream, **members}
    response = client.post(f"/v1/{path}", json.dumps(body))
    message = f"'{param}' has half of a surrogate pair, expected Unicode text"
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    assert (response.status, response.json()) == (400, {"error": error})


def test_surrogate_pairs_are_accepted(client: Client) -> None:
    response = client.post("/v1/completions", '{"model": "complete", "prompt": "\\ud83d\\ude00"}')
    assert response.json()["choices"][0]["text"] == "\U0001f600"
