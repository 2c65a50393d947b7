"""OpenAI's routes: models, and types of requests and responses."""

from __future__ import annotations

from penstock.compat.kserve.protocol.rest.openai.openai_chat_adapter_model import OpenAIChatAdapterModel
from penstock.compat.kserve.protocol.rest.openai.openai_model import (
    ChatCompletionRequest,
    ChatPrompt,
    CompletionRequest,
    OpenAIEncoderModel,
    OpenAIGenerativeModel,
    OpenAIModel,
)
from penstock.compat.kserve.protocol.rest.openai.openai_proxy_model import OpenAIProxyModel
from penstock.compat.kserve.protocol.rest.openai.types import (
    ChatCompletionMessageParam,
    ChatCompletionRequestMessage,
)

__all__ = [
    "ChatCompletionMessageParam",
    "ChatCompletionRequest",
    "ChatCompletionRequestMessage",
    "ChatPrompt",
    "CompletionRequest",
    "OpenAIChatAdapterModel",
    "OpenAIEncoderModel",
    "OpenAIGenerativeModel",
    "OpenAIModel",
    "OpenAIProxyModel",
]
