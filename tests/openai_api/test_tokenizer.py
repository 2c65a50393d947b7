"""`openai.Tokenizer`: `/tokenize` and `/detokenize` in the form of vLLM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai_helpers import post

from penstock import SignatureError, model, openai
from penstock.testing import Client


@model
def complete(prompt: str) -> str:
    return prompt.upper()


def encode(text: str, add_special_tokens: bool = True) -> list[int]:
    return [1] * add_special_tokens + [ord(letter) for letter in text]


def decode(tokens: list[int]) -> str:
    return "".join(map(chr, tokens))


def as_prompt(messages: list[dict[str, Any]]) -> str:
    return "".join(f"<{one['role']}>{one['content']}" for one in messages)


@pytest.fixture
def client() -> Iterator[Client]:
    tokens = openai.Tokenizer(complete, encode, decode, template=as_prompt, max_model_len=64)
    with Client(complete, openai.routes(openai.Completions(complete), tokens)) as opened:
        yield opened


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_tokens_of_a_prompt_and_back(client: Client, prefix: str) -> None:
    response = post(client, f"{prefix}/tokenize", {"model": "complete", "prompt": "hé"})
    assert response.json() == {"count": 3, "max_model_len": 64, "tokens": [1, 104, 233], "token_strs": None}
    asked = {"model": "complete", "prompt": "hé", "add_special_tokens": False}
    assert post(client, f"{prefix}/tokenize", asked).json()["tokens"] == [104, 233]
    response = post(client, f"{prefix}/detokenize", {"model": "complete", "tokens": [104, 233]})
    assert response.json() == {"prompt": "hé"}
    assert post(client, f"{prefix}/detokenize", {"model": "complete", "tokens": []}).json() == {"prompt": ""}
    assert post(client, f"{prefix}/tokenize", {"model": "complete", "prompt": ""}).json()["count"] == 1


def test_tokens_of_messages_have_no_special_tokens_by_default(client: Client) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    asked: dict[str, Any] = {"model": "complete", "messages": messages, "add_generation_prompt": True}
    assert decode(post(client, "/tokenize", asked).json()["tokens"]) == "<user>ab"
    asked["add_special_tokens"] = True
    assert post(client, "/tokenize", asked).json()["tokens"][0] == 1


@pytest.mark.parametrize(
    ("path", "changes", "param", "text"),
    [
        ("tokenize", {}, "prompt", "'prompt' is missing"),
        ("tokenize", {"prompt": 1}, "prompt", "'prompt' must be a string"),
        ("tokenize", {"prompt": "a", "messages": []}, "messages", "either 'prompt' or 'messages', not both"),
        ("tokenize", {"messages": "a"}, "messages", "'messages' must be a list"),
        ("tokenize", {"messages": ["a"]}, "messages[0]", "must be an object with a 'role'"),
        (
            "tokenize",
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content",
            "must be a string or a list of texts",
        ),
        (
            "tokenize",
            {"messages": [{"role": "user"}], "add_generation_prompt": False},
            "add_generation_prompt",
            "other than true is not supported here",
        ),
        ("tokenize", {"prompt": "a", "return_token_strs": True}, "return_token_strs", "is not supported here"),
        ("tokenize", {"prompt": "a", "add_special_tokens": 1}, "add_special_tokens", "must be a boolean"),
        ("tokenize", {"prompt": "a", "model": "other"}, "model", "The model 'other' does not exist"),
        ("detokenize", {}, "tokens", "'tokens' is missing"),
        ("detokenize", {"tokens": "a"}, "tokens", "'tokens' must be a list of token ids"),
        ("detokenize", {"tokens": [1, -1]}, "tokens[1]", "must be a token id, an integer of 0 or more"),
        ("detokenize", {"tokens": [True]}, "tokens[0]", "must be a token id"),
        ("detokenize", {"tokens": [2**32]}, "tokens[0]", "must be a token id"),
        ("detokenize", {"tokens": [2**31]}, "tokens", "has an id that is not a token of model 'complete'"),
    ],
)
def test_refusals_name_the_member(client: Client, path: str, changes: dict[str, Any], param: str, text: str) -> None:
    response = post(client, f"/{path}", {"model": "complete", **changes})
    error = response.json()["error"]
    assert response.status == (404 if param == "model" else 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert text in error["message"]


def test_tokenizer_without_decoder_template_and_special_tokens() -> None:
    tokens = openai.Tokenizer(complete, lambda text: map(ord, text), name="letters")
    with Client(complete, openai.routes(tokens)) as client:
        response = post(client, "/tokenize", {"model": "letters", "prompt": "ab"})
        assert response.json() == {"count": 2, "max_model_len": None, "tokens": [97, 98], "token_strs": None}
        asked = {"model": "letters", "prompt": "a", "add_special_tokens": False}
        assert post(client, "/tokenize", asked).json()["error"]["param"] == "add_special_tokens"
        asked = {"model": "letters", "messages": [{"role": "user", "content": "a"}]}
        assert post(client, "/tokenize", asked).json()["error"]["param"] == "messages"
        assert post(client, "/detokenize", {"model": "letters", "tokens": [97]}).status == 404


@pytest.mark.parametrize("what", ["encode", "decode", "template"])
def test_functions_must_be_callable(what: str) -> None:
    functions: dict[str, Any] = {"encode": encode, "decode": decode, "template": as_prompt, what: 7}
    with pytest.raises(SignatureError, match=f"Tokenizer: {what} must be callable, not 7"):
        openai.Tokenizer(complete, **functions)
