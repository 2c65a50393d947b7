"""A chat with a language model of Hugging Face transformers.

    penstock serve app.py

CHAT_MODEL is its folder, or its name on the hub.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from jinja2 import TemplateError
from penstock import Context, model, openai
from penstock.errors import InvalidInput
from penstock.openai import Delta, Usage
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BatchEncoding,
    TextIteratorStreamer,
)

from chat_format import ToolCallParser, for_template

MODEL = os.environ.get("CHAT_MODEL", "Qwen/Qwen3-0.6B")
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


@model(name="chat")
class Chat:
    """Generates one answer at a time, on a GPU if there is one."""

    def __init__(self) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = AutoTokenizer.from_pretrained(MODEL)
        self.network = AutoModelForCausalLM.from_pretrained(MODEL, dtype="auto").to(self.device).eval()
        self.worker = ThreadPoolExecutor(1)
        self.context: int = self.network.config.get_text_config().max_position_embeddings
        eos = self.network.generation_config.eos_token_id
        self.eos = set(eos if isinstance(eos, list) else [eos])

    def __call__(
        self, messages: list[dict[str, Any]], ctx: Context, tools: list[dict[str, Any]] | None = None
    ) -> Iterator[Delta]:
        """Generates on the worker, while this thread yields the text."""
        prompt = self.prompt(messages, tools)
        progress = Progress(ctx, prompt["input_ids"].shape[1])
        streamer = TextIteratorStreamer(self.tokenizer, skip_prompt=True, skip_special_tokens=True)
        options = {**self.options(ctx, progress.prompt), "streamer": streamer, "stopping_criteria": [progress]}
        generated = self.worker.submit(self.generate, prompt, options, ctx.parameters.get("seed"))
        # After an error too, of which the streamer knows nothing.
        generated.add_done_callback(lambda _: streamer.end())
        calls = ToolCallParser(tools)
        try:
            for chunk in streamer:
                text, found = calls.feed(chunk)
                yield Delta(content=text, tool_calls=found, usage=progress.usage())
        finally:
            # The client has left, or its stop text has come.
            progress.ended = True
        reason = "stop" if int(generated.result()[0, -1]) in self.eos else "length"
        yield Delta(content=calls.end(), finish_reason=calls.finish_reason(reason), usage=progress.usage())

    def prompt(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> BatchEncoding:
        """The tokens of the prompt, INT64 [1, tokens]."""
        try:
            return self.tokenizer.apply_chat_template(
                for_template(messages), tools=tools, add_generation_prompt=True, return_dict=True, return_tensors="pt"
            ).to(self.device)
        except TemplateError as error:
            raise InvalidInput(f"the model's template refuses the messages: {error}") from error

    def options(self, ctx: Context, prompt: int) -> dict[str, Any]:
        """Options of `generate`. Without parameters of sampling the model's own ones apply."""
        room = self.context - prompt
        if room < 1:
            raise InvalidInput(f"the prompt has {prompt} tokens, expected fewer than {self.context}")
        sampling = {name: ctx.parameters[name] for name in SAMPLING if name in ctx.parameters}
        if sampling.get("temperature") == 0:
            sampling = {"do_sample": False}
        elif sampling:
            sampling["do_sample"] = True
        return {**sampling, "max_new_tokens": min(int(ctx.parameters.get("max_tokens", room)), room)}

    def generate(self, prompt: BatchEncoding, options: dict[str, Any], seed: int | None) -> torch.Tensor:
        """The tokens of the prompt and the answer, INT64 [1, tokens]."""
        if seed is not None:
            # The generator of the process: one answer is generated at a time.
            torch.manual_seed(seed)
        try:
            return self.network.generate(**prompt, **options)
        except ValueError as error:
            # About a parameter: those of the server's own are valid.
            raise InvalidInput(str(error)) from error

    def close(self) -> None:
        """Ends the worker."""
        self.worker.shutdown()


class Progress:
    """Counts the tokens of an answer. As a stopping criterion, it ends an answer that is no longer read."""

    def __init__(self, ctx: Context, prompt: int) -> None:
        self.ctx, self.prompt = ctx, prompt
        self.tokens, self.ended = 0, False

    def __call__(self, tokens: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Called after each token. tokens: INT64 [1, tokens]."""
        self.tokens = tokens.shape[1] - self.prompt
        return torch.full((1,), self.ended or self.ctx.cancelled, device=tokens.device)

    def usage(self) -> Usage:
        """The numbers so far."""
        return Usage(prompt_tokens=self.prompt, completion_tokens=self.tokens)


api = openai.routes(openai.Chat(Chat))
