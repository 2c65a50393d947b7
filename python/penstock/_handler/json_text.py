"""JSON from clients, restricted to Unicode texts: the standard library also accepts lone surrogates."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["find_surrogate", "loads", "surrogate_message"]

_MAX_PATH = 200
_SEARCHED = (str, dict, list)
_Node = tuple[Any, Any, Any]
"""A value, the node of the object or array that contains it, and its name or index there."""

_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def loads(text: bytes | str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: not JSON, or a text in it is not Unicode.
        RecursionError: nested too deeply.
    """
    value = json.loads(text)
    if (path := find_surrogate(text, value)) is not None:
        raise ValueError(surrogate_message(path))
    return value


def surrogate_message(path: str) -> str:
    """The message for a text that is not Unicode."""
    return f"{path!r} has half of a surrogate pair, expected Unicode text"


def find_surrogate(text: bytes | str, value: Any) -> str | None:
    """The path of a text with a lone surrogate, which UTF-8 cannot encode, such as `messages[0].content`.

    Args:
        text: The JSON text. The value is searched only if the text can contain a surrogate.
        value: The parsed value.

    Returns:
        The path, for an object's key that of the object; None if there is no such text.
    """
    try:
        raw = text.encode() if isinstance(text, str) else text
        raw.decode()
    except UnicodeError:
        return _search(value)
    return _search(value) if _ESCAPE.search(raw) else None


def _search(value: Any) -> str | None:
    # Nodes link to their parents, so that a path is built only for a result.
    pending: list[_Node] = [(value, None, None)]
    while pending:
        node = pending.pop()
        current = node[0]
        if isinstance(current, dict):
            if not all(map(_is_unicode, current)):
                return _path(node)
            pending += [(member, node, name) for name, member in current.items() if isinstance(member, _SEARCHED)]
        elif isinstance(current, list):
            pending += [(item, node, index) for index, item in enumerate(current) if isinstance(item, _SEARCHED)]
        elif isinstance(current, str) and not _is_unicode(current):
            return _path(node)
    return None


def _path(node: _Node) -> str:
    steps: list[str] = []
    while node[1] is not None:
        _, parent, step = node
        name = step if isinstance(step, int) else step[:_MAX_PATH]
        steps.append(f"[{name}]" if isinstance(step, int) else f".{name}")
        node = parent
    return "".join(reversed(steps)).removeprefix(".")[:_MAX_PATH] or "body"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
