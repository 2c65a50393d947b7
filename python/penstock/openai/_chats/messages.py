"""Messages of chats: checks, and their text."""

from __future__ import annotations

from typing import Any

from penstock.openai._errors import Refused
from penstock.openai._members import PARTS

__all__ = ["Message", "check_messages", "joined", "text_of"]

Message = dict[str, Any]
_TEXTS = ("text", "refusal")


def check_messages(messages: Any, parts: frozenset[str]) -> list[Message]:
    """Checks the messages of a chat. Returns them.

    Args:
        messages: The member `messages`.
        parts: Types of content parts, besides text, that the model accepts.

    Raises:
        Refused: a malformed message, or a part that the model does not accept.
    """
    if not isinstance(messages, list) or not messages:
        raise Refused("'messages' must be a list of one message at least", "messages")
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refused(f"'{where}' must be an object with a 'role'", where)
        _check_content(message.get("content"), f"{where}.content", parts)
        if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
            raise Refused(f"'{where}.tool_call_id' must be a string: the id of the call", f"{where}.tool_call_id")
        if (calls := message.get("tool_calls")) is not None:
            _check_calls(calls, f"{where}.tool_calls")
    return messages


def _check_content(content: Any, where: str, parts: frozenset[str]) -> None:
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise Refused(f"'{where}' must be a string or a list of parts", where)
    for index, part in enumerate(content):
        here = f"{where}[{index}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in _TEXTS:
            if not isinstance(part.get(kind), str):
                raise Refused(f"'{here}.{kind}' must be a string", f"{here}.{kind}")
        elif kind in PARTS:
            if kind not in parts:
                raise Refused(f"'{here}' is of the type {kind!r}, which is not supported here", here)
            _check_media(part, str(kind), here)
        else:
            raise Refused(f"'{here}.type' is {kind!r}, expected 'text' or another part's type", f"{here}.type")


def _check_media(part: dict[str, Any], kind: str, where: str) -> None:
    media = part.get(kind)
    needed = {"image_url": "url", "video_url": "url", "input_audio": "data"}.get(kind)
    if not isinstance(media, dict) or (needed is not None and not isinstance(media.get(needed), str)):
        member = f" with '{needed}'" if needed else ""
        raise Refused(f"'{where}.{kind}' must be an object{member}", f"{where}.{kind}")


def _check_calls(calls: Any, where: str) -> None:
    if not isinstance(calls, list):
        raise Refused(f"'{where}' must be a list", where)
    for index, call in enumerate(calls):
        here = f"{where}[{index}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Refused(f"'{here}.function' must be an object with a 'name'", f"{here}.function")
        if not isinstance(function.get("arguments", ""), str):
            raise Refused(f"'{here}.function.arguments' must be a string of JSON", f"{here}.function.arguments")
        if not isinstance(call.get("id"), str):
            raise Refused(f"'{here}.id' must be a string", f"{here}.id")


def joined(messages: list[Message]) -> list[Message]:
    """The messages with the text of their parts joined, unless they have other parts."""
    return [
        {**message, "content": text_of(message)} if _is_text(message.get("content")) else message
        for message in messages
    ]


def _is_text(content: Any) -> bool:
    return not isinstance(content, list) or all(part.get("type") in _TEXTS for part in content)


def text_of(message: Message) -> str:
    """The text of a message, without its other parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part[part["type"]] for part in content if part.get("type") in _TEXTS)
    return content or ""
