"""Chunks of a model: text, or `Delta` with text, reasoning, tool calls and log probabilities."""

from __future__ import annotations

import json
from typing import Any

import msgspec

__all__ = ["Delta", "TokenLogprob", "ToolCall", "TopLogprob", "Usage"]


class ToolCall(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Begins a tool call, or continues the last one.

    Attributes:
        name: Name of the tool; None continues the last call.
        arguments: Arguments as JSON text, whole or the next part of it; an object is written as text.
        id: Id of the call; default: one that the server makes.
    """

    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.arguments, dict):
            self.arguments = json.dumps(self.arguments, ensure_ascii=False)


class TopLogprob(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One of the most likely tokens at a place."""

    token: str
    logprob: float
    bytes: list[int] | None = None


class TokenLogprob(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The log probability of a token of the text.

    Attributes:
        token: The token's text.
        logprob: Natural logarithm of its probability.
        bytes: Its bytes, for a token that is not whole characters.
        top_logprobs: The most likely tokens at its place.
    """

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list[TopLogprob] = []


class Usage(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Numbers of tokens so far, as far as the model counts them. Later ones replace earlier ones."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Delta(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Addition of one chunk to an answer. A model that yields text only yields `str`.

    Attributes:
        content: Text.
        reasoning: Text of the model's reasoning.
        tool_calls: Parts of tool calls, which follow the text.
        logprobs: Log probabilities of the tokens of `content`.
        finish_reason: `stop`, `length`, `tool_calls` or `content_filter`; default: `tool_calls` after a tool call, else
            `stop`.
        usage: Numbers of tokens; default: counted by `tokens=` of the declaration.

    Example:
        >>> def chat(messages: list[Any], tools: list[Any] | None = None) -> Iterator[str | Delta]:
        ...     yield "Let me look. "
        ...     yield Delta(tool_calls=[ToolCall("weather", {"city": "Oslo"})])
    """

    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []
    logprobs: list[TokenLogprob] = []
    finish_reason: str | None = None
    usage: Usage | None = None
