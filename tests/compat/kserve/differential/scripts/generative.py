"""A model with OpenAI's routes, for dialect 0.13 only: KServe 0.21 needs vLLM for them."""

from __future__ import annotations

from typing import Any

from kserve.protocol.rest.openai import ChatPrompt, OpenAIChatAdapterModel
from kserve.protocol.rest.openai.types import Completion, CompletionChoice, CompletionUsage


class Parrot(OpenAIChatAdapterModel):
    """Repeats the prompt word by word."""

    async def create_completion(self, request: Any) -> Any:
        """Returns the completion or a stream."""
        params = request.params
        if params.prompt == "fail":
            raise ValueError("the parrot is tired")
        if params.prompt == "context":
            request.context["response"].headers["x-parrot"] = request.request_id or "none"
        words = str(params.prompt).split()[: params.max_tokens]
        if params.stream:
            return self.chunks(params.model, words)
        return self.completion(params.model, " ".join(words), "stop", len(words))

    async def chunks(self, model: str, words: list[str]) -> Any:
        """Yields a completion per word."""
        for index, word in enumerate(words):
            yield self.completion(model, word, "stop" if index == len(words) - 1 else None, 1)

    def completion(self, model: str, text: str, reason: str | None, count: int) -> Any:
        """Returns a completion."""
        return Completion.model_construct(
            id="cmpl-1",
            choices=[CompletionChoice.model_construct(index=0, text=text, finish_reason=reason, logprobs=None)],
            created=1700000000,
            model=model,
            object="text_completion",
            usage=CompletionUsage(completion_tokens=count, prompt_tokens=count, total_tokens=2 * count),
        )

    def apply_chat_template(self, messages: Any) -> Any:
        """Uses the last message."""
        return ChatPrompt(prompt=" ".join(str(one.content) for one in messages))
