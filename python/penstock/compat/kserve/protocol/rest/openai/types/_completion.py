"""Completions: requests, responses and chunks."""

from __future__ import annotations

from typing import Annotated, Any

from penstock.compat.kserve.protocol.rest.openai.types._common import DualRequest, UsageInfo, id_of, now
from penstock.compat.kserve.protocol.rest.openai.types._fields import Fields, default_factory
from penstock.compat.kserve.protocol.rest.openai.types._parsing import Between

__all__ = [
    "Completion",
    "CompletionChoice",
    "CompletionChunk",
    "CompletionChunkChoice",
    "CompletionLogProbs",
    "CompletionRequest",
    "CreateCompletionRequest",
]

_Penalty = Annotated[float, Between(-2.0, 2.0)] | None
_Seed = Annotated[int, Between(-(2**63), 2**63 - 1)] | None
_Stop = str | list[str] | None
_Prompt = str | list[str] | list[int] | list[list[int]] | None


class CreateCompletionRequest(Fields):
    """A completion's request, with the defaults of KServe 0.13."""

    model: str
    prompt: _Prompt
    best_of: Annotated[int, Between(0, 20)] | None = 1
    echo: bool | None = False
    frequency_penalty: _Penalty = 0.0
    logit_bias: dict[str, float] | None = None
    logprobs: Annotated[int, Between(0, 5)] | None = None
    max_tokens: Annotated[int, Between(0, 2**63 - 1)] | None = 16
    n: Annotated[int, Between(1, 128)] | None = 1
    presence_penalty: _Penalty = 0.0
    seed: _Seed = None
    stop: _Stop = None
    stream: bool | None = False
    suffix: str | None = None
    temperature: Annotated[float, Between(0.0, 2.0)] | None = 1.0
    top_p: Annotated[float, Between(0.0, 1.0)] | None = 1.0
    user: str | None = None


class CompletionRequest(DualRequest):
    """A completion's request, with the defaults of later versions; see `DualRequest`."""

    model: str | None = None
    prompt: _Prompt = None
    echo: bool | None = False
    frequency_penalty: float | None = 0.0
    logit_bias: dict[str, float] | None = None
    logprobs: int | None = None
    max_tokens: int | None = 16
    n: Annotated[int, Between(1, 128)] = 1
    presence_penalty: float | None = 0.0
    seed: _Seed = None
    stop: _Stop = default_factory(list)
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    suffix: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None
    request_id: str = id_of("cmpl")


class CompletionLogProbs(Fields):
    """Log probabilities of all tokens."""

    text_offset: list[int] | None = default_factory(list)
    token_logprobs: list[float | None] | None = default_factory(list)
    tokens: list[str] | None = default_factory(list)
    top_logprobs: list[dict[str, float] | None] | None = default_factory(list)


class CompletionChoice(Fields):
    """A choice."""

    finish_reason: str | None = None
    index: int
    logprobs: CompletionLogProbs | None = None
    text: str


class CompletionChunkChoice(CompletionChoice):
    """A chunk of a choice."""


class Completion(Fields):
    """A response that is not streamed."""

    id: str = id_of("cmpl")
    choices: list[CompletionChoice]
    created: int = now()
    model: str
    system_fingerprint: str | None = None
    object: str = "text_completion"
    usage: UsageInfo | None = None


class CompletionChunk(Fields):
    """A chunk of a streamed response."""

    id: str = id_of("cmpl")
    choices: list[CompletionChunkChoice]
    created: int = now()
    model: str
    system_fingerprint: str | None = None
    object: str = "text_completion"
    usage: UsageInfo | None = None
