"""OpenAI's types, by the names of all versions of KServe, without dependencies."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve.protocol.rest.openai.types._chat import (
    ChatCompletion,
    ChatCompletionChoice,
    ChatCompletionChunk,
    ChatCompletionLogProb,
    ChatCompletionLogProbs,
    ChatCompletionLogProbsContent,
    ChatCompletionRequest,
    ChatMessage,
    ChoiceDelta,
    ChunkChoice,
    CreateChatCompletionRequest,
)
from penstock.compat.kserve.protocol.rest.openai.types._common import (
    Model,
    ModelList,
    UsageInfo,
)
from penstock.compat.kserve.protocol.rest.openai.types._completion import (
    Completion,
    CompletionChoice,
    CompletionChunk,
    CompletionChunkChoice,
    CompletionLogProbs,
    CompletionRequest,
    CreateCompletionRequest,
)
from penstock.compat.kserve.protocol.rest.openai.types._encoding import (
    Embedding,
    EmbeddingCompletionRequest,
    EmbeddingRequest,
    EmbeddingResponseData,
    Rerank,
    RerankDocument,
    RerankRequest,
    RerankResult,
    RerankUsage,
)
from penstock.compat.kserve.protocol.rest.openai.types._errors import (
    Error,
    ErrorResponse,
)
from penstock.compat.kserve.protocol.rest.openai.types._fields import ValidationError
from penstock.compat.kserve.protocol.rest.openai.types._messages import (
    AssistantMessage,
    Message,
    ToolMessage,
)
from penstock.compat.kserve.protocol.rest.openai.types.openapi import (
    ChatCompletionRequestAssistantMessage,
    ChatCompletionRequestFunctionMessage,
    ChatCompletionRequestMessage,
    ChatCompletionRequestSystemMessage,
    ChatCompletionRequestToolMessage,
    ChatCompletionRequestUserMessage,
    ChatCompletionResponseMessage,
    ChatCompletionTokenLogprob,
    CompletionUsage,
    Logprobs,
    TopLogprob,
)

__all__ = [
    "ChatCompletion",
    "ChatCompletionAssistantMessageParam",
    "ChatCompletionChoice",
    "ChatCompletionChoiceLogprobs",
    "ChatCompletionChunk",
    "ChatCompletionContentPartParam",
    "ChatCompletionContentPartTextParam",
    "ChatCompletionLogProb",
    "ChatCompletionLogProbs",
    "ChatCompletionLogProbsContent",
    "ChatCompletionMessageParam",
    "ChatCompletionRequest",
    "ChatCompletionRequestAssistantMessage",
    "ChatCompletionRequestFunctionMessage",
    "ChatCompletionRequestMessage",
    "ChatCompletionRequestSystemMessage",
    "ChatCompletionRequestToolMessage",
    "ChatCompletionRequestUserMessage",
    "ChatCompletionResponseMessage",
    "ChatCompletionTokenLogprob",
    "ChatCompletionToolMessageParam",
    "ChatMessage",
    "ChoiceDelta",
    "ChunkChoice",
    "Completion",
    "CompletionChoice",
    "CompletionChunk",
    "CompletionChunkChoice",
    "CompletionLogProbs",
    "CompletionRequest",
    "CompletionUsage",
    "ConversationMessage",
    "CreateChatCompletionRequest",
    "CreateCompletionRequest",
    "CustomChatCompletionMessageParam",
    "Embedding",
    "EmbeddingCompletionRequest",
    "EmbeddingRequest",
    "EmbeddingResponseData",
    "Error",
    "ErrorResponse",
    "Logprobs",
    "Model",
    "ModelList",
    "Rerank",
    "RerankDocument",
    "RerankRequest",
    "RerankResult",
    "RerankUsage",
    "TopLogprob",
    "UsageInfo",
    "ValidationError",
]

ChatCompletionChoiceLogprobs = ChatCompletionLogProbs
ChatCompletionMessageParam = Message
CustomChatCompletionMessageParam = Message
ConversationMessage = Message
ChatCompletionAssistantMessageParam = AssistantMessage
ChatCompletionToolMessageParam = ToolMessage
ChatCompletionContentPartParam = dict[str, Any]
ChatCompletionContentPartTextParam = dict[str, Any]
