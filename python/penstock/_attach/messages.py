"""What goes over a line: a JSON object, and bytes that it speaks of. Nothing in it is code."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock import errors

if TYPE_CHECKING:
    from penstock._core import Channel, Line

__all__ = ["hear", "packed", "refusal", "refused", "say"]

_LENGTH = struct.Struct("<Q")

_KINDS: dict[str, type[errors.PenstockError]] = {
    one.__name__: one
    for one in (
        errors.AlreadyExists,
        errors.InternalError,
        errors.InvalidInput,
        errors.LoadError,
        errors.SignatureError,
        errors.Unavailable,
    )
}


def say(line: Line, head: Mapping[str, Any], parts: Iterable[bytes] = (), channels: Iterable[Channel] = ()) -> None:
    """Says something, with parts that do not fit into JSON.

    Raises:
        OSError: the other end is gone, or does not listen.
    """
    line.say(packed(head, parts), list(channels))


def packed(head: Mapping[str, Any], parts: Iterable[bytes] = ()) -> bytes:
    """The bytes of a message."""
    parts = list(parts)
    text = json.dumps({**head, "parts": [len(part) for part in parts]}).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *parts))


def hear(line: Line, timeout: float | None = None) -> tuple[dict[str, Any], list[bytes], list[Channel]] | None:
    """What is said next; None if nothing is within so many seconds.

    Raises:
        EOFError: the line has ended.
        ValueError, OSError: what came is no message of ours.
    """
    heard = line.hear(timeout)
    if heard is None:
        return None
    message, channels = heard
    return (*_parsed(message), channels)


def _parsed(message: bytes) -> tuple[dict[str, Any], list[bytes]]:
    if len(message) < _LENGTH.size:
        raise ValueError("a message that is cut short")
    start = _LENGTH.size + _LENGTH.unpack_from(message)[0]
    try:
        head = json.loads(message[_LENGTH.size : start])
    except RecursionError:
        raise ValueError("a message that is nested too deeply") from None
    lengths = head.get("parts") if isinstance(head, dict) else None
    if not isinstance(lengths, list) or not all(type(one) is int and one >= 0 for one in lengths):
        raise ValueError("a message that is no object")
    if start + sum(lengths) != len(message):
        raise ValueError("a message that is not as long as it says")
    parts = []
    for length in lengths:
        parts.append(message[start : start + length])
        start += length
    return head, parts


def refusal(error: BaseException) -> dict[str, str]:
    """An error as an answer."""
    kind = next((name for name, one in _KINDS.items() if isinstance(error, one)), "InternalError")
    return {"error": kind, "message": str(error)}


def refused(head: Mapping[str, Any]) -> errors.PenstockError:
    """The error that an answer is."""
    return _KINDS.get(str(head.get("error")), errors.InternalError)(str(head.get("message")))
