"""Forms of chats: messages as templates expect them, and the tool calls in a model's text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.openai import ToolCall

BEGIN, END = "<tool_call>", "</tool_call>"
"""Marks of a call, `{"name": ..., "arguments": {...}}`, as Qwen and Hermes write it. Other models have others."""


class ToolCallParser:
    """Separates the tool calls from the text, which comes in chunks.

    Args:
        tools: The tools of the request. Without any, all is text.
    """

    def __init__(self, tools: Sequence[Any] | None) -> None:
        self.enabled, self.called, self.pending = bool(tools), False, ""

    def feed(self, chunk: str) -> tuple[str, list[ToolCall]]:
        """Takes the next chunk. Returns the text and the calls that are complete."""
        if not self.enabled:
            return chunk, []
        text, calls = "", []
        self.pending += chunk
        while END in self.pending:
            before, begin, call = self.pending.partition(END)[0].rpartition(BEGIN)
            self.pending = self.pending.partition(END)[2]
            if begin and (found := parsed(call)) is not None:
                calls.append(found)
                text += before
            else:
                text += f"{before}{begin}{call}{END}"
        held = self.pending.find(BEGIN) if BEGIN in self.pending else len(self.pending) - unfinished(self.pending)
        self.called = self.called or bool(calls)
        text, self.pending = text + self.pending[:held], self.pending[held:]
        # Calls are separated by line breaks, which are not a text.
        return "" if self.called and text.isspace() else text, calls

    def end(self) -> str:
        """The text of a call that was begun and not ended."""
        return self.pending

    def finish_reason(self, reason: str | None) -> str | None:
        """The reason why an answer ended, given that of the engine."""
        return "tool_calls" if self.called and reason == "stop" else reason


def unfinished(text: str) -> int:
    """Number of characters at the end that may begin a call."""
    return next((size for size in range(len(BEGIN) - 1, 0, -1) if text.endswith(BEGIN[:size])), 0)


def parsed(call: str) -> ToolCall | None:
    """A call; None if the text is not the JSON of one."""
    try:
        document = json.loads(call)
        return ToolCall(str(document["name"]), dict(document.get("arguments") or {}))
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def for_template(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with text parts joined, and with arguments of tool calls as objects: clients send them as text."""
    found = []
    for given in messages:
        message = dict(given)
        if isinstance(message.get("content"), list):
            message["content"] = "".join(part["text"] for part in message["content"])
        if message.get("tool_calls"):
            message["tool_calls"] = [with_object(call) for call in message["tool_calls"]]
        found.append(message)
    return found


def with_object(call: dict[str, Any]) -> dict[str, Any]:
    """A call whose arguments are an object, if their text is JSON."""
    try:
        arguments = json.loads(call["function"]["arguments"])
    except ValueError:
        return call
    return {**call, "function": {**call["function"], "arguments": arguments}}
