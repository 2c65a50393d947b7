"""`Answers`: what a handler returns that answers each request of a batch by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Answers"]


class Answers:
    """The outputs of each request of a batch, in the order of `ctx.requests`.

    For a handler whose outputs differ in shape from request to request, or that makes them one by one anyway: nothing
    has to be joined, only to be parted again. A handler that streams may yield it too.

    Args:
        each: What the handler would return if a request were alone, with all of its rows; or an exception, which
            fails it alone.

    Example:
        >>> def spans(text, ctx):
        ...     ends = itertools.accumulate(one.rows for one in ctx.requests)
        ...     parts = [text[end - one.rows : end] for end, one in zip(ends, ctx.requests)]
        ...     return Answers({"spans": find(part)} for part in parts)
    """

    __slots__ = ("each",)

    each: tuple[Any, ...]
    """What each request is answered."""

    def __init__(self, each: Iterable[Any]) -> None:
        self.each = tuple(each)

    def __repr__(self) -> str:
        return f"Answers({len(self.each)} requests)"
