"""A chat with a GGUF file, computed by llama.cpp.

    CHAT_MODEL=model.gguf penstock serve app.py

CHAT_CONTEXT is the number of tokens of prompt and answer (default: 8192, 0: as the file says).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from llama_cpp import Llama, LogitsProcessorList
from penstock import Context, model, openai
from penstock.errors import InvalidInput
from penstock.openai import Delta, ToolCall, Usage

from chat_format import ToolCallParser, for_template

MODEL = os.environ.get("CHAT_MODEL", "model.gguf")
CONTEXT = int(os.environ.get("CHAT_CONTEXT", "8192"))
SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "max_tokens",
    "presence_penalty",
    "frequency_penalty",
    "repeat_penalty",
)


@model(name="chat")
class Chat:
    """Generates one answer at a time, on a GPU if llama.cpp was built for one."""

    def __init__(self) -> None:
        self.engine = Llama(MODEL, n_ctx=CONTEXT, n_gpu_layers=-1, verbose=False)

    def __call__(
        self,
        messages: list[dict[str, Any]],
        ctx: Context,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: Any = None,
        response_format: dict[str, Any] | None = None,
    ) -> Iterator[Delta]:
        """Yields the chunks of llama.cpp. It stops between two chunks when the client has left."""
        if tool_choice == "none":
            tools = None
        count, calls, call_id = TokenCount(), ToolCallParser(tools), None
        try:
            chunks = self.engine.create_chat_completion(
                for_template(messages),
                tools=tools,
                tool_choice=forced_tool(tool_choice),
                response_format=grammar(response_format),
                logits_processor=LogitsProcessorList([count]),
                stream=True,
                **{name: ctx.parameters[name] for name in SAMPLING if name in ctx.parameters},
            )
            first = next(chunks)
        except ValueError as error:
            # About the request: its prompt is longer than the context, or the template refuses it.
            raise InvalidInput(str(error)) from error
        for chunk in chain([first], chunks):
            (choice,) = chunk["choices"]
            delta, reason = choice["delta"], choice["finish_reason"]
            text, found = calls.feed(delta.get("content") or "")
            for call in delta.get("tool_calls") or []:
                # Each part of a call has its name and id.
                name = call["function"]["name"] if call["id"] != call_id else None
                found.append(ToolCall(name, call["function"]["arguments"]))
                call_id = call["id"]
            rest = calls.end() if reason else ""
            yield Delta(
                content=text + rest,
                tool_calls=found,
                finish_reason=calls.finish_reason(reason),
                usage=count.usage(),
            )

    def close(self) -> None:
        """Frees the model."""
        self.engine.close()


def forced_tool(choice: Any) -> Any:
    """The tool that the answer must call. llama.cpp holds an answer to the arguments of one tool."""
    if choice == "required":
        raise InvalidInput("tool_choice 'required' is not supported here, expected the name of a tool")
    return choice


def grammar(response_format: dict[str, Any] | None) -> dict[str, Any] | None:
    """The form of the answer as llama.cpp takes it."""
    if response_format is not None and response_format["type"] == "json_schema":
        return {"type": "json_object", "schema": response_format["json_schema"]["schema"]}
    return response_format


class TokenCount:
    """Counts tokens: as a logits processor, it is called with all tokens before each new one."""

    def __init__(self) -> None:
        self.prompt = self.completion = 0

    def __call__(self, tokens: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """tokens: INT32 [tokens]; logits: FP32 [words]."""
        self.prompt = self.prompt or len(tokens)
        self.completion = len(tokens) - self.prompt + 1
        return logits

    def usage(self) -> Usage:
        """The numbers so far."""
        return Usage(prompt_tokens=self.prompt, completion_tokens=self.completion)


api = openai.routes(openai.Chat(Chat))
