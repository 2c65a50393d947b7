"""Chats: requests, responses and chunks."""

from __future__ import annotations

from typing import Annotated, Any

from penstock.compat.kserve.protocol.rest.openai.types._common import DualRequest, UsageInfo, id_of, now
from penstock.compat.kserve.protocol.rest.openai.types._fields import Fields, default_factory
from penstock.compat.kserve.protocol.rest.openai.types._messages import Message
from penstock.compat.kserve.protocol.rest.openai.types._parsing import Between

__all__ = [
    "ChatCompletion",
    "ChatCompletionChoice",
    "ChatCompletionChunk",
    "ChatCompletionLogProb",
    "ChatCompletionLogProbs",
    "ChatCompletionLogProbsContent",
    "ChatCompletionRequest",
    "ChatMessage",
    "ChoiceDelta",
    "ChunkChoice",
    "CreateChatCompletionRequest",
]

_Penalty = Annotated[float, Between(-2.0, 2.0)] | None
_Seed = Annotated[int, Between(-(2**63), 2**63 - 1)] | None
_Stop = str | list[str] | None


class CreateChatCompletionRequest(Fields):
    """A chat's request, with the defaults of KServe 0.13."""

    messages: list[Message]
    model: str
    frequency_penalty: _Penalty = 0.0
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int, Between(0, 20)] | None = None
    max_tokens: int | None = None
    n: Annotated[int, Between(1, 128)] | None = 1
    presence_penalty: _Penalty = 0.0
    response_format: dict[str, Any] | None = None
    seed: _Seed = None
    stop: _Stop = None
    stream: bool | None = False
    temperature: Annotated[float, Between(0.0, 2.0)] | None = 1.0
    top_p: Annotated[float, Between(0.0, 1.0)] | None = 1.0
    tools: list[Any] | None = None
    tool_choice: Any = None
    user: str | None = None
    function_call: Any = None
    functions: list[Any] | None = None


class ChatCompletionRequest(DualRequest):
    """A chat's request, with the defaults of later versions; see `DualRequest`."""

    messages: list[Message]
    model: str | None = None
    frequency_penalty: float | None = 0.0
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = 0
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = 1
    presence_penalty: float | None = 0.0
    response_format: dict[str, Any] | None = None
    seed: _Seed = None
    stop: _Stop = default_factory(list)
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: list[Any] | None = None
    tool_choice: Any = "none"
    user: str | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool = True
    request_id: str = id_of("chatcmpl")


class ChatCompletionLogProb(Fields):
    """Log probability of a token."""

    token: str
    logprob: float = -9999.0
    bytes: list[int] | None = None


class ChatCompletionLogProbsContent(ChatCompletionLogProb):
    """Log probability of the chosen token and its alternatives."""

    top_logprobs: list[ChatCompletionLogProb] = default_factory(list)


class ChatCompletionLogProbs(Fields):
    """Log probabilities of all tokens."""

    content: list[ChatCompletionLogProbsContent] | None = None


class ChatMessage(Fields):
    """The model's message."""

    content: str | None = None
    tool_calls: list[Any] | None = None
    role: str
    function_call: Any = None


class ChoiceDelta(Fields):
    """A chunk of the model's message."""

    content: str | None = None
    function_call: Any = None
    tool_calls: list[Any] | None = None
    role: str | None = None


class ChatCompletionChoice(Fields):
    """A choice."""

    finish_reason: str | None = "stop"
    index: int
    message: ChatMessage
    logprobs: ChatCompletionLogProbs | None = None


class ChunkChoice(Fields):
    """A chunk of a choice."""

    delta: ChoiceDelta
    logprobs: ChatCompletionLogProbs | None = None
    finish_reason: str | None = None
    index: int


class ChatCompletion(Fields):
    """A response that is not streamed."""

    id: str = id_of("chatcmpl")
    choices: list[ChatCompletionChoice]
    created: int = now()
    model: str
    system_fingerprint: str | None = None
    object: str = "chat.completion"
    usage: UsageInfo | None = None


class ChatCompletionChunk(Fields):
    """A chunk of a streamed response."""

    id: str = id_of("chatcmpl")
    choices: list[ChunkChoice]
    created: int = now()
    model: str
    system_fingerprint: str | None = None
    object: str = "chat.completion.chunk"
    usage: UsageInfo | None = None
