"""JSON as clients send it, whose texts all are Unicode: the standard library reads halves of surrogate pairs too."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["half_in", "loads", "told_of"]

_SHOWN = 200
_LOOKED_AT = (str, dict, list)
_Place = tuple[Any, Any, Any]
"""A value, the place of what it is in, and its name or index there."""

_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def loads(text: bytes | str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is not JSON, or a text in it is not Unicode.
        RecursionError: it is nested too deeply.
    """
    value = json.loads(text)
    if (place := half_in(text, value)) is not None:
        raise ValueError(told_of(place))
    return value


def told_of(place: str) -> str:
    """The message about a text that is not Unicode."""
    return f"{place!r} has half of a surrogate pair, expected Unicode text"


def half_in(text: bytes | str, value: Any) -> str | None:
    """The place of a text with half of a surrogate pair, which UTF-8 cannot carry, as in `messages[0].content`.

    Args:
        text: What the value was read from. The value is looked at only where this can have such a text.
        value: What was read.

    Returns:
        The place, of a name that of its object; None if there is none.
    """
    try:
        raw = text.encode() if isinstance(text, str) else text
        raw.decode()
    except UnicodeError:
        return _half(value)
    return _half(value) if _ESCAPE.search(raw) else None


def _half(value: Any) -> str | None:
    # Each with the one that it is in: a path is made only for what is found.
    waiting: list[_Place] = [(value, None, None)]
    while waiting:
        place = waiting.pop()
        one = place[0]
        if isinstance(one, dict):
            if not all(map(_is_unicode, one)):
                return _path(place)
            waiting += [(member, place, name) for name, member in one.items() if isinstance(member, _LOOKED_AT)]
        elif isinstance(one, list):
            waiting += [(each, place, index) for index, each in enumerate(one) if isinstance(each, _LOOKED_AT)]
        elif isinstance(one, str) and not _is_unicode(one):
            return _path(place)
    return None


def _path(place: _Place) -> str:
    steps: list[str] = []
    while place[1] is not None:
        _, parent, step = place
        name = step if isinstance(step, int) else step[:_SHOWN]
        steps.append(f"[{name}]" if isinstance(step, int) else f".{name}")
        place = parent
    return "".join(reversed(steps)).removeprefix(".")[:_SHOWN] or "body"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
