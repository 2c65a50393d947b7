"""Stand-in for vLLM, without a GPU: what app.py uses of it, with the signatures of vLLM 0.33.

Its model repeats the prompt, word by word.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any


class VLLMClientError(Exception):
    """Base of errors of the request."""


class RequestOutputKind(Enum):
    """Content of each output."""

    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


@dataclass
class StructuredOutputsParams:
    """The form of an answer."""

    json: Any = None
    json_object: bool | None = None


@dataclass
class SamplingParams:
    """Options of a request."""

    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    structured_outputs: StructuredOutputsParams | None = None
    logit_bias: dict[int, float] | None = None

    def __post_init__(self) -> None:
        """Refuses one value, as the engine does."""
        if not 0 < self.top_p <= 1:
            raise VLLMClientError(f"top_p must be in (0, 1], got {self.top_p}.")


@dataclass
class Logprob:
    """A token at a place."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass
class CompletionOutput:
    """New text of an answer."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str | None = None


@dataclass
class RequestOutput:
    """An output of the engine."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int] | None
    prompt_logprobs: Any
    outputs: list[CompletionOutput]
    finished: bool
    num_cached_tokens: int | None = None


@dataclass
class AsyncEngineArgs:
    """Arguments of an engine."""

    model: str


class Tokenizer:
    """Tokens are words. The template is the tools' names, then the last message."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def apply_chat_template(self, conversation: list[Any], tools: list[Any] | None = None, **_: Any) -> str:
        """The prompt of a chat."""
        names = [tool["function"]["name"] for tool in tools or []]
        return " ".join([*names, conversation[-1]["content"]])

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The tokens of a text."""
        self.words += text.split()
        return [self.words.index(word) for word in text.split()]


class AsyncLLM:
    """The engine."""

    def __init__(self) -> None:
        self.model_config = SimpleNamespace(max_model_len=1000, get_diff_sampling_param=dict)
        self.tokenizer = Tokenizer()
        self.requests: list[SamplingParams] = []
        self.aborted: list[str] = []

    @classmethod
    def from_engine_args(cls, engine_args: AsyncEngineArgs) -> AsyncLLM:
        """Starts an engine."""
        return cls()

    def get_tokenizer(self) -> Tokenizer:
        """The tokenizer."""
        return self.tokenizer

    async def generate(
        self, prompt: dict[str, Any], sampling_params: SamplingParams, request_id: str
    ) -> AsyncGenerator[RequestOutput, None]:
        """Yields an output for each word."""
        self.requests.append(sampling_params)
        tokens = prompt["prompt_token_ids"]
        answer = tokens[: sampling_params.max_tokens]
        try:
            for place, token in enumerate(answer):
                await asyncio.sleep(0)
                word = self.tokenizer.words[token]
                logprobs = None if sampling_params.logprobs is None else [{token: Logprob(-0.5, 1, word)}]
                finished = place == len(answer) - 1
                reason = ("stop" if answer == tokens else "length") if finished else None
                part = CompletionOutput(0, f"{word} ", [token], None, logprobs, reason)
                yield RequestOutput(request_id, None, tokens, None, [part], finished, num_cached_tokens=0)
        except (asyncio.CancelledError, GeneratorExit):
            self.aborted.append(request_id)
            raise

    def shutdown(self) -> None:
        """Ends the engine."""


def modules() -> dict[str, ModuleType]:
    """Modules to put into `sys.modules`."""
    names = ("vllm", "vllm.exceptions", "vllm.sampling_params", "vllm.v1", "vllm.v1.engine", "vllm.v1.engine.async_llm")
    found = {name: ModuleType(name) for name in names}
    for module in found.values():
        vars(module).update({name: value for name, value in vars(sys.modules[__name__]).items() if name[0].isupper()})
    return found
