"""`OpenAIChatAdapterModel`: chats with a model that completes prompts."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Any

from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol.rest.openai._signatures import call, is_old
from penstock.compat.kserve.protocol.rest.openai.openai_model import (
    AsyncMappingIterator,
    ChatPrompt,
    OpenAIGenerativeModel,
)
from penstock.compat.kserve.protocol.rest.openai.types import (
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
    CompletionChunk,
    CompletionRequest,
    CreateCompletionRequest,
)

__all__ = ["OpenAIChatAdapterModel"]

_SHARED = (
    "model",
    "frequency_penalty",
    "logit_bias",
    "max_tokens",
    "n",
    "presence_penalty",
    "seed",
    "stop",
    "stream",
    "temperature",
    "top_p",
    "user",
)
"""Members that a chat's request shares with a completion's."""


class OpenAIChatAdapterModel(OpenAIGenerativeModel):
    """Serves chats by a script's `create_completion` and `apply_chat_template`."""

    @abstractmethod
    def apply_chat_template(self, request: Any) -> ChatPrompt:
        """Returns the messages of a chat as one prompt.

        Args:
            request: The chat's request; the list of its messages if the script's `create_completion` takes the request
                alone, as in KServe 0.13.
        """

    @classmethod
    def chat_completion_params_to_completion_params(cls, request: Any, prompt: str) -> Any:
        """Returns a chat's request as a completion's, of the same version of KServe."""
        given = {name: getattr(request, name) for name in _SHARED}
        given.update(prompt=prompt, logprobs=request.top_logprobs)
        if not isinstance(request, ChatCompletionRequest):
            return CreateCompletionRequest(**given)
        return CompletionRequest(**given, request_id=request.request_id)

    @classmethod
    def to_choice_logprobs(cls, logprobs: Any) -> ChatCompletionLogProbs:
        """Returns a completion's log probabilities in a chat's form."""
        tops = logprobs.top_logprobs or [None] * len(logprobs.tokens)
        return ChatCompletionLogProbs(
            content=[
                ChatCompletionLogProbsContent(
                    **_log_prob(token, likely),
                    top_logprobs=[ChatCompletionLogProb(**_log_prob(*one)) for one in (top or {}).items()],
                )
                for token, likely, top in zip(logprobs.tokens, logprobs.token_logprobs, tops, strict=True)
            ]
        )

    @classmethod
    def to_chat_completion_choice(cls, completion_choice: Any, role: str) -> ChatCompletionChoice:
        """Returns a completion's choice as a message."""
        return ChatCompletionChoice(
            index=0,
            finish_reason=completion_choice.finish_reason,
            logprobs=cls._logprobs(completion_choice),
            message=ChatMessage(content=completion_choice.text, role=role),
        )

    @classmethod
    def to_chat_completion_chunk_choice(cls, completion_choice: Any, role: str) -> ChunkChoice:
        """Returns a completion chunk's choice as a chunk of a message."""
        return ChunkChoice(
            delta=ChoiceDelta(content=completion_choice.text, role=role),
            index=0,
            finish_reason=completion_choice.finish_reason,
            logprobs=cls._logprobs(completion_choice),
        )

    @classmethod
    def completion_to_chat_completion(cls, completion: Any, role: str) -> ChatCompletion:
        """Returns a completion as a chat completion."""
        return ChatCompletion(
            id=completion.id,
            choices=[cls.to_chat_completion_choice(one, role) for one in completion.choices[:1]],
            created=completion.created,
            model=completion.model,
            system_fingerprint=getattr(completion, "system_fingerprint", None),
            usage=completion.usage,
        )

    @classmethod
    def completion_to_chat_completion_chunk(cls, completion: Any, role: str) -> ChatCompletionChunk:
        """Returns a completion's chunk as a chat completion's chunk."""
        return ChatCompletionChunk(
            id=completion.id,
            choices=[cls.to_chat_completion_chunk_choice(one, role) for one in completion.choices[:1]],
            created=completion.created,
            model=completion.model,
            system_fingerprint=getattr(completion, "system_fingerprint", None),
            # Only the chunk after the text has the usage, and no choices.
            usage=None if completion.choices else getattr(completion, "usage", None),
        )

    async def create_chat_completion(
        self, request: Any, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """Completes the prompt of `apply_chat_template`."""
        params = request.params
        if params.n not in (None, 1):
            raise InvalidInput("n != 1 is not supported")
        old = is_old(self.create_completion)
        prompt = self.apply_chat_template(params.messages if old else request)
        prompt_request = self.chat_completion_params_to_completion_params(params, prompt.prompt)
        if old:
            prompt_request = CompletionRequest(
                params=prompt_request, request_id=request.request_id, context=request.context
            )
        completion = await call(self.create_completion, prompt_request, raw_request, context)
        role = prompt.response_role
        if hasattr(completion, "error"):
            return completion
        if not hasattr(completion, "__aiter__"):
            return self.completion_to_chat_completion(completion, role)
        chunks = AsyncMappingIterator(completion.__aiter__(), lambda chunk: self._chunk(chunk, role))
        return chunks if old else _events(chunks)

    create_chat_completion.follows = "create_completion"  # type: ignore[attr-defined]

    def _chunk(self, chunk: Any, role: str) -> ChatCompletionChunk | None:
        if isinstance(chunk, str | bytes):
            text = (chunk if isinstance(chunk, str) else chunk.decode()).removeprefix("data:").strip()
            if text in ("", "[DONE]"):
                return None
            if "error" in (parsed := json.loads(text)):
                raise InvalidInput(str(parsed["error"]))
            chunk = CompletionChunk.model_validate(parsed)
        return self.completion_to_chat_completion_chunk(chunk, role)

    @classmethod
    def _logprobs(cls, choice: Any) -> ChatCompletionLogProbs | None:
        return None if choice.logprobs is None else cls.to_choice_logprobs(choice.logprobs)


def _log_prob(token: str, likely: float | None) -> dict[str, Any]:
    return {"token": token, "logprob": -9999.0 if likely is None else likely, "bytes": list(token.encode())}


async def _events(chunks: AsyncMappingIterator) -> AsyncIterator[str]:
    try:
        async for chunk in chunks:
            yield f"data: {chunk.model_dump_json()}\n\n"
        yield "data: [DONE]\n\n"
    finally:
        await chunks.aclose()
