"""Messages of Anthropic's API, with their content blocks, as the messages of a chat."""

from __future__ import annotations

import json
from typing import Any

from penstock.openai._chats.messages import Message
from penstock.openai._errors import Refused

__all__ = ["as_messages", "system_text"]


def system_text(system: Any) -> str:
    """The member `system`: a text, or a list of text blocks."""
    if isinstance(system, str):
        return system
    if not isinstance(system, list):
        raise Refused("'system' must be a string or a list of text blocks", "system")
    return "\n".join(_text(block, f"system[{index}]") for index, block in enumerate(system))


def as_messages(given: Any) -> list[Message]:
    """Converts the member `messages`.

    Raises:
        Refused: a message or a block that is malformed or not supported.
    """
    if not isinstance(given, list) or not given:
        raise Refused("'messages' must be a list of one message at least", "messages")
    messages: list[Message] = []
    for index, message in enumerate(given):
        where = f"messages[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant", "system"):
            raise Refused(f"'{where}.role' is {role!r}, expected 'user' or 'assistant'", f"{where}.role")
        content = message.get("content")
        if isinstance(content, str):
            messages.append({"role": role, "content": content})
        elif isinstance(content, list):
            convert = _assistant if role == "assistant" else _user
            messages.extend(convert(role, content, f"{where}.content"))
        else:
            raise Refused(f"'{where}.content' must be a string or a list of blocks", f"{where}.content")
    return messages


def _user(role: str, blocks: list[Any], where: str) -> list[Message]:
    """Results of tools are separate messages, which follow the calls."""
    results: list[Message] = []
    parts: list[dict[str, Any]] = []
    for index, block in enumerate(blocks):
        here = f"{where}[{index}]"
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_result":
            results.append(_result(block, here))
        else:
            parts.append(_part(block, here))
    return [*results, {"role": role, "content": parts}] if parts else results


def _result(block: dict[str, Any], where: str) -> Message:
    content = block.get("content", "")
    if isinstance(content, list):
        content = [_part(part, f"{where}.content[{index}]") for index, part in enumerate(content)]
    elif not isinstance(content, str):
        raise Refused(f"'{where}.content' must be a string or a list of blocks", f"{where}.content")
    message = {"role": "tool", "tool_call_id": _string(block, "tool_use_id", where), "content": content}
    return {**message, "is_error": True} if block.get("is_error") is True else message


def _assistant(role: str, blocks: list[Any], where: str) -> list[Message]:
    texts: list[str] = []
    message: Message = {"role": role}
    for index, block in enumerate(blocks):
        here = f"{where}[{index}]"
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "thinking":
            message["reasoning"] = message.get("reasoning", "") + _string(block, "thinking", here)
        elif kind == "tool_use":
            arguments = json.dumps(block.get("input", {}), ensure_ascii=False)
            function = {"name": _string(block, "name", here), "arguments": arguments}
            call = {"id": _string(block, "id", here), "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(call)
        elif kind != "redacted_thinking":
            texts.append(_text(block, here))
    return [{**message, "content": "".join(texts)} if texts or "tool_calls" not in message else message]


def _part(block: Any, where: str) -> dict[str, Any]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind != "image":
        return {"type": "text", "text": _text(block, where)}
    source = block.get("source")
    if not isinstance(source, dict):
        raise Refused(f"'{where}.source' must be an object", f"{where}.source")
    if source.get("type") == "base64":
        media, data = _string(source, "media_type", f"{where}.source"), _string(source, "data", f"{where}.source")
        return {"type": "image_url", "image_url": {"url": f"data:{media};base64,{data}"}}
    if source.get("type") == "url":
        return {"type": "image_url", "image_url": {"url": _string(source, "url", f"{where}.source")}}
    raise Refused(f"'{where}.source.type' must be 'base64' or 'url'", f"{where}.source.type")


def _text(block: Any, where: str) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind != "text":
        raise Refused(f"'{where}.type' is {kind!r}, which is not supported here", f"{where}.type")
    return _string(block, "text", where)


def _string(block: dict[str, Any], name: str, where: str) -> str:
    if not isinstance(block.get(name), str):
        raise Refused(f"'{where}.{name}' must be a string", f"{where}.{name}")
    return str(block[name])
