"""Events of streamed responses, in their wire form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from penstock._core import TextBody, TextStream

__all__ = ["DONE", "Document", "End", "Part", "encode", "event", "text_body"]

Document = dict[str, Any]


class End(NamedTuple):
    """Last documents of a stream."""

    documents: list[Document]


Part: TypeAlias = "list[Document] | End | TextBody"
"""A part of a stream: the documents of some events, or the events of a text that the server sends by itself."""

DONE = b"data: [DONE]\n\n"
"""The last event."""


def encode(document: Document) -> bytes:
    """A document in compact JSON."""
    return _text(document).encode()


def event(document: Document) -> bytes:
    """The event of a document."""
    return f"data: {_text(document)}\n\n".encode()


def text_body(stream: TextStream, document_of: Callable[[str], Document], mark: str) -> TextBody:
    """The events of the rest of a text, which the server sends without the GIL.

    Args:
        stream: The text.
        document_of: The document of one chunk. Documents differ in the text only.
        mark: A text that is nowhere else in a document, and the same in JSON.
    """
    before, after = f"data: {_text(document_of(mark))}\n\n".split(f'"{mark}"')
    return stream.body(before, after)


def _text(document: Document) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
