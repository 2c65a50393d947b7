"""The types by the names that KServe 0.13 has for them."""

from __future__ import annotations

from penstock.compat.kserve.protocol.rest.openai.types._chat import (
    ChatCompletion as CreateChatCompletionResponse,
)
from penstock.compat.kserve.protocol.rest.openai.types._chat import (
    ChatCompletionChoice as Choice1,
)
from penstock.compat.kserve.protocol.rest.openai.types._chat import (
    ChatCompletionChunk as CreateChatCompletionStreamResponse,
)
from penstock.compat.kserve.protocol.rest.openai.types._chat import (
    ChatCompletionLogProb as TopLogprob,
)
from penstock.compat.kserve.protocol.rest.openai.types._chat import (
    ChatCompletionLogProbs as Logprobs2,
)
from penstock.compat.kserve.protocol.rest.openai.types._chat import (
    ChatCompletionLogProbsContent as ChatCompletionTokenLogprob,
)
from penstock.compat.kserve.protocol.rest.openai.types._chat import (
    ChatMessage as ChatCompletionResponseMessage,
)
from penstock.compat.kserve.protocol.rest.openai.types._chat import (
    ChoiceDelta as ChatCompletionStreamResponseDelta,
)
from penstock.compat.kserve.protocol.rest.openai.types._chat import (
    ChunkChoice as Choice3,
)
from penstock.compat.kserve.protocol.rest.openai.types._chat import CreateChatCompletionRequest
from penstock.compat.kserve.protocol.rest.openai.types._common import Model
from penstock.compat.kserve.protocol.rest.openai.types._common import ModelList as ListModelsResponse
from penstock.compat.kserve.protocol.rest.openai.types._common import UsageInfo as CompletionUsage
from penstock.compat.kserve.protocol.rest.openai.types._completion import (
    Completion as CreateCompletionResponse,
)
from penstock.compat.kserve.protocol.rest.openai.types._completion import (
    CompletionChoice as Choice,
)
from penstock.compat.kserve.protocol.rest.openai.types._completion import (
    CompletionLogProbs as Logprobs,
)
from penstock.compat.kserve.protocol.rest.openai.types._completion import CreateCompletionRequest
from penstock.compat.kserve.protocol.rest.openai.types._errors import Error, ErrorResponse
from penstock.compat.kserve.protocol.rest.openai.types._messages import (
    AssistantMessage as ChatCompletionRequestAssistantMessage,
)
from penstock.compat.kserve.protocol.rest.openai.types._messages import (
    FunctionMessage as ChatCompletionRequestFunctionMessage,
)
from penstock.compat.kserve.protocol.rest.openai.types._messages import (
    Message as ChatCompletionRequestMessage,
)
from penstock.compat.kserve.protocol.rest.openai.types._messages import (
    SystemMessage as ChatCompletionRequestSystemMessage,
)
from penstock.compat.kserve.protocol.rest.openai.types._messages import (
    ToolMessage as ChatCompletionRequestToolMessage,
)
from penstock.compat.kserve.protocol.rest.openai.types._messages import (
    UserMessage as ChatCompletionRequestUserMessage,
)

__all__ = [
    "ChatCompletionRequestAssistantMessage",
    "ChatCompletionRequestFunctionMessage",
    "ChatCompletionRequestMessage",
    "ChatCompletionRequestSystemMessage",
    "ChatCompletionRequestToolMessage",
    "ChatCompletionRequestUserMessage",
    "ChatCompletionResponseMessage",
    "ChatCompletionStreamResponseDelta",
    "ChatCompletionTokenLogprob",
    "Choice",
    "Choice1",
    "Choice3",
    "CompletionUsage",
    "CreateChatCompletionRequest",
    "CreateChatCompletionResponse",
    "CreateChatCompletionStreamResponse",
    "CreateCompletionRequest",
    "CreateCompletionResponse",
    "Error",
    "ErrorResponse",
    "ListModelsResponse",
    "Logprobs",
    "Logprobs2",
    "Model",
    "TopLogprob",
]
