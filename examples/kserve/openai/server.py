"""A model with OpenAI's routes, streamed or not. It returns its prompt in capitals.

Written for KServe up to 0.13, whose types these are. Penstock has them in both dialects, and needs no vLLM for them.
"""

import argparse
import time

from kserve import ModelServer, model_server
from kserve.protocol.rest.openai import ChatPrompt, OpenAIChatAdapterModel
from kserve.protocol.rest.openai.types import Completion, CompletionChoice, CompletionUsage


class Capitals(OpenAIChatAdapterModel):
    """Completes prompts; chats are converted to prompts by the template below."""

    async def create_completion(self, request):
        """Returns all words at once or as a stream."""
        words = request.params.prompt.upper().split()
        if request.params.stream:
            return self.pieces(words)
        return self.completion(" ".join(words), len(words), "stop")

    async def pieces(self, words):
        """Yields an event per word."""
        for place, word in enumerate(words):
            yield self.completion(word, 1, "stop" if place == len(words) - 1 else None)

    def completion(self, text, count, reason):
        """Returns an OpenAI object."""
        return Completion.model_construct(
            id="cmpl-0",
            object="text_completion",
            created=int(time.time()),
            model=self.name,
            choices=[CompletionChoice.model_construct(index=0, text=text, finish_reason=reason, logprobs=None)],
            usage=CompletionUsage(prompt_tokens=count, completion_tokens=count, total_tokens=2 * count),
        )

    def apply_chat_template(self, messages):
        """Uses the last message as the prompt."""
        return ChatPrompt(prompt=messages[-1].content)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    args, _ = parser.parse_known_args()
    ModelServer().start([Capitals(args.model_name)])
