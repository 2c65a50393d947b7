"""A chat with vLLM, which computes many answers in one pass.

    penstock serve app.py

CHAT_MODEL is a folder, or a name on the hub.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

from jinja2 import TemplateError
from penstock import Context, model, openai
from penstock.errors import InvalidInput
from penstock.openai import Delta, TokenLogprob, TopLogprob, Usage
from vllm import AsyncEngineArgs, SamplingParams
from vllm.exceptions import VLLMClientError
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM

from chat_format import ToolCallParser, for_template

MODEL = os.environ.get("CHAT_MODEL", "Qwen/Qwen3-8B")
SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "min_tokens",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)


# The engine computes up to its `max_num_seqs` at once; some more wait in its scheduler.
@model(name="chat", max_concurrency=512)
class Chat:
    """Passes each chat to the engine, whose scheduler batches their tokens."""

    def __init__(self) -> None:
        self.engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=MODEL))
        self.tokenizer = self.engine.get_tokenizer()
        # One thread: calls of a tokenizer by several at once may fail.
        self.tokenizing = ThreadPoolExecutor(1)

    async def __call__(
        self,
        messages: list[dict[str, Any]],
        ctx: Context,
        *,
        tools: list[dict[str, Any]] | None = None,
        response_format: dict[str, Any] | None = None,
        logit_bias: dict[str, float] | None = None,
        logprobs: bool = False,
        top_logprobs: int = 0,
    ) -> AsyncIterator[Delta]:
        """Yields the engine's outputs. If the client leaves, closing `generate` aborts the request in the engine."""
        loop = asyncio.get_running_loop()
        prompt = await loop.run_in_executor(self.tokenizing, self.prompt, messages, tools)
        options = {
            **self.sampling(ctx, len(prompt)),
            "logprobs": top_logprobs if logprobs else None,
            "logit_bias": {int(token): bias for token, bias in logit_bias.items()} if logit_bias else None,
            "structured_outputs": structure(response_format),
        }
        calls, completion = ToolCallParser(tools), 0
        try:
            params = SamplingParams(output_kind=RequestOutputKind.DELTA, **options)
            outputs = self.engine.generate({"prompt_token_ids": prompt}, params, uuid.uuid4().hex)
            async with aclosing(outputs):
                async for output in outputs:
                    (part,) = output.outputs
                    completion += len(part.token_ids)
                    text, found = calls.feed(part.text)
                    yield Delta(
                        content=text + calls.end() if output.finished else text,
                        tool_calls=found,
                        logprobs=token_logprobs(part) if logprobs else [],
                        finish_reason=calls.finish_reason(part.finish_reason),
                        usage=Usage(len(prompt), completion, cached_tokens=output.num_cached_tokens),
                    )
        except VLLMClientError as error:
            raise InvalidInput(str(error)) from error

    def prompt(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[int]:
        """The tokens of the prompt."""
        try:
            text = self.tokenizer.apply_chat_template(
                for_template(messages), tools=tools, add_generation_prompt=True, tokenize=False
            )
        except TemplateError as error:
            raise InvalidInput(f"the model's template refuses the messages: {error}") from error
        return self.tokenizer.encode(text, add_special_tokens=False)

    def sampling(self, ctx: Context, prompt: int) -> dict[str, Any]:
        """Options of sampling: the request's, else the model's own ones."""
        longest = self.engine.model_config.max_model_len
        if prompt >= longest:
            raise InvalidInput(f"the prompt has {prompt} tokens, expected fewer than {longest}")
        options = {**self.engine.model_config.get_diff_sampling_param()}
        options |= {name: ctx.parameters[name] for name in SAMPLING if name in ctx.parameters}
        limit = ctx.parameters.get("max_tokens", options.get("max_tokens", longest))
        return {**options, "max_tokens": min(int(limit), longest - prompt)}

    def close(self) -> None:
        """Ends the engine's process."""
        self.tokenizing.shutdown()
        self.engine.shutdown()


def structure(response_format: dict[str, Any] | None) -> StructuredOutputsParams | None:
    """The form of the answer, to which the engine holds it."""
    kind = (response_format or {}).get("type", "text")
    if kind == "json_schema":
        return StructuredOutputsParams(json=response_format["json_schema"]["schema"])
    return StructuredOutputsParams(json_object=True) if kind == "json_object" else None


def token_logprobs(part: Any) -> list[TokenLogprob]:
    """Log probabilities of the tokens of an output: of each one, and of the most likely ones at its place."""
    found = []
    for token, place in zip(part.token_ids, part.logprobs or [], strict=True):
        chosen = place[token]
        top = sorted((one for one in place.values() if one.rank is not None), key=lambda one: one.rank)
        found.append(
            TokenLogprob(
                chosen.decoded_token or "",
                chosen.logprob,
                top_logprobs=[TopLogprob(one.decoded_token or "", one.logprob) for one in top],
            )
        )
    return found


api = openai.routes(openai.Chat(Chat))
