"""Messages between a server and an attaching process: a JSON object and binary parts. They never contain code."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock import errors

if TYPE_CHECKING:
    from penstock._core import ControlChannel, InstanceChannel

__all__ = ["error_from_message", "error_message", "pack", "receive", "send"]

_LENGTH = struct.Struct("<Q")

_KINDS: dict[str, type[errors.PenstockError]] = {
    kind.__name__: kind
    for kind in (
        errors.AlreadyExists,
        errors.InternalError,
        errors.InvalidInput,
        errors.LoadError,
        errors.SignatureError,
        errors.Unavailable,
    )
}


def send(
    connection: ControlChannel,
    message: Mapping[str, Any],
    parts: Iterable[bytes] = (),
    channels: Iterable[InstanceChannel] = (),
) -> None:
    """Sends a message with its binary parts, and passes the channels to the other process.

    Raises:
        OSError: the other end is gone, or does not read.
    """
    connection.send(pack(message, parts), list(channels))


def pack(message: Mapping[str, Any], parts: Iterable[bytes] = ()) -> bytes:
    """The bytes of a message: the length of the JSON, the JSON, and the parts."""
    parts = list(parts)
    text = json.dumps({**message, "parts": [len(part) for part in parts]}).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *parts))


def receive(
    connection: ControlChannel, timeout: float | None = None
) -> tuple[dict[str, Any], list[bytes], list[InstanceChannel]] | None:
    """The next message, its parts and its channels; None if none arrives within `timeout` seconds.

    Raises:
        EOFError: the connection is closed.
        ValueError, OSError: not a valid message.
    """
    received = connection.receive(timeout)
    if received is None:
        return None
    message, channels = received
    return (*_unpack(message), channels)


def _unpack(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    if len(data) < _LENGTH.size:
        raise ValueError("a message that is cut short")
    start = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    try:
        message = json.loads(data[_LENGTH.size : start])
    except RecursionError:
        raise ValueError("a message that is nested too deeply") from None
    lengths = message.get("parts") if isinstance(message, dict) else None
    if not isinstance(lengths, list) or not all(type(length) is int and length >= 0 for length in lengths):
        raise ValueError("a message that is not an object with the lengths of its parts")
    if start + sum(lengths) != len(data):
        raise ValueError(f"a message of {len(data)} bytes, expected {start + sum(lengths)}")
    parts = []
    for length in lengths:
        parts.append(data[start : start + length])
        start += length
    return message, parts


def error_message(error: BaseException) -> dict[str, str]:
    """The message that reports an error to the other process."""
    kind = next((name for name, kind in _KINDS.items() if isinstance(error, kind)), "InternalError")
    return {"error": kind, "message": str(error)}


def error_from_message(message: Mapping[str, Any]) -> errors.PenstockError:
    """The error that a message reports."""
    return _KINDS.get(str(message.get("error")), errors.InternalError)(str(message.get("message")))
