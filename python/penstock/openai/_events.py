"""Events of streamed responses, in their wire form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from penstock._core import GenerationBody

__all__ = ["Document", "End", "Part", "encode", "event"]

Document = dict[str, Any]


class End(NamedTuple):
    """The last events of a stream."""

    events: bytes


Part: TypeAlias = "bytes | End | GenerationBody"
"""A part of a stream: events, or those that the server sends by itself."""


def encode(document: Document) -> bytes:
    """A document in compact JSON."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def event(document: Document) -> bytes:
    """The event of a document."""
    return b"data: %b\n\n" % encode(document)
