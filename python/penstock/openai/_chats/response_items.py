"""Input items of `/v1/responses` as the messages of a chat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.openai._chats.messages import Message
from penstock.openai._errors import Refused

__all__ = ["as_messages"]


def as_messages(given: Any) -> list[Message]:
    """Converts the member `input`: a text, or a list of items.

    Raises:
        Refused: an item that is malformed, or that refers to something stored.
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise Refused("'input' must be a string or a list of items, of one at least", "input")
    messages: list[Message] = []
    for index, item in enumerate(given):
        where = f"input[{index}]"
        if not isinstance(item, dict):
            raise Refused(f"'{where}' must be an object", where)
        kind = item.get("type", "message")
        convert = _ITEMS.get(kind) if isinstance(kind, str) else None
        if convert is None:
            text = f"'{where}.type' is {kind!r}, which is not supported here: expected one of {', '.join(_ITEMS)}"
            raise Refused(text, f"{where}.type")
        _append(messages, convert(item, where))
    return messages


def _append(messages: list[Message], message: Message) -> None:
    """Adds a message. Reasoning, text and calls that follow each other are one of the assistant."""
    last = messages[-1] if messages else {}
    same = last.get("role") == message["role"] == "assistant"
    if not same or ("content" in message and ("content" in last or "tool_calls" in last)):
        messages.append(message)
        return
    calls = [*last.get("tool_calls", ()), *message.get("tool_calls", ())]
    last |= {**message, **({"tool_calls": calls} if calls else {})}


def _member(item: dict[str, Any], name: str, where: str) -> str:
    if not isinstance(item.get(name), str):
        raise Refused(f"'{where}.{name}' must be a string", f"{where}.{name}")
    return str(item[name])


def _message(item: dict[str, Any], where: str) -> Message:
    return {"role": _member(item, "role", where), "content": _content(item.get("content"), f"{where}.content")}


def _call(item: dict[str, Any], where: str) -> Message:
    function = {"name": _member(item, "name", where), "arguments": _member(item, "arguments", where)}
    call = {"id": _member(item, "call_id", where), "type": "function", "function": function}
    return {"role": "assistant", "tool_calls": [call]}


def _output(item: dict[str, Any], where: str) -> Message:
    content = _content(item.get("output"), f"{where}.output")
    return {"role": "tool", "tool_call_id": _member(item, "call_id", where), "content": content}


def _reasoning(item: dict[str, Any], where: str) -> Message:
    parts = item.get("content") or item.get("summary") or []
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise Refused(f"'{where}.content' must be a list of parts", f"{where}.content")
    return {"role": "assistant", "reasoning": "".join(str(part.get("text", "")) for part in parts)}


def _content(content: Any, where: str) -> Any:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise Refused(f"'{where}' must be a string or a list of parts", where)
    return [_part(part, f"{where}[{index}]") for index, part in enumerate(content)]


def _part(part: Any, where: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": _member(part, "text", where)}
    if kind == "refusal":
        return {"type": "refusal", "refusal": _member(part, "refusal", where)}
    if kind == "input_image":
        image = {"url": _member(part, "image_url", where)}
        return {"type": "image_url", "image_url": image | {name: part[name] for name in ("detail",) if name in part}}
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": part.get("input_audio")}
    if kind == "input_file":
        names = ("file_data", "file_url", "filename")
        return {"type": "file", "file": {name: part[name] for name in names if name in part}}
    raise Refused(f"'{where}.type' is {kind!r}, which is not supported here", f"{where}.type")


_ITEMS: dict[str, Callable[[dict[str, Any], str], Message]] = {
    "message": _message,
    "function_call": _call,
    "function_call_output": _output,
    "reasoning": _reasoning,
}
