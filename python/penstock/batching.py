"""`Batching`: how the rows of several requests share one call of the handler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

__all__ = ["Batching"]


@dataclass(frozen=True, init=False, slots=True)
class Batching:
    """How the rows of several requests share one call of the handler.

    With it, every input and output has a leading batch axis, and each request brings one or more
    rows. Without it, each request is one call and no axis is added.

    Args:
        max_size: The most rows in one call.
        dynamic: Whether rows of different requests may share a call. False keeps the batch axis.
        max_delay: How long the oldest request may wait for company, in seconds or as a `timedelta`.
            0 adds no wait: whatever waits when an instance is free goes together.
        preferred_sizes: Sizes that a batch is cut to when more than that waits.
        oversize: A request with more rows than `max_size` is refused ("refuse"), or computed in
            several calls and answered as one ("split").
        hold: Whether a free instance may wait a small, learned share of its batch time for callers
            that were just answered and are about to come back.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Batching(max_size=32, max_delay=0.002)
    """

    max_size: int
    """The most rows in one call."""
    dynamic: bool
    """Whether rows of different requests may share a call."""
    max_delay: float
    """How long the oldest request may wait for company, in seconds."""
    preferred_sizes: tuple[int, ...]
    """Sizes that a batch is cut to, ascending."""
    oversize: Literal["refuse", "split"]
    """What happens to a request with more rows than `max_size`."""
    hold: bool
    """Whether the learned hold for returning callers is on."""

    def __init__(
        self,
        max_size: int = 64,
        *,
        dynamic: bool = True,
        max_delay: float | timedelta = 0.0,
        preferred_sizes: Iterable[int] = (),
        oversize: Literal["refuse", "split"] = "refuse",
        hold: bool = True,
    ) -> None:
        seconds = max_delay.total_seconds() if isinstance(max_delay, timedelta) else float(max_delay)
        sizes = tuple(sorted(set(preferred_sizes)))
        if not _is_int(max_size) or not 1 <= max_size < 2**31:
            raise ValueError(f"Batching: max_size must be an integer of 1 or more, not {max_size!r}")
        if not 0.0 <= seconds < float("inf"):
            raise ValueError(f"Batching: max_delay must be 0 seconds or more, not {max_delay!r}")
        for size in sizes:
            if not _is_int(size) or not 1 <= size <= max_size:
                raise ValueError(f"Batching: preferred size {size!r} is not between 1 and max_size {max_size}")
        if oversize not in ("refuse", "split"):
            raise ValueError(f"Batching: oversize must be 'refuse' or 'split', not {oversize!r}")
        values = (int(max_size), bool(dynamic), seconds, sizes, oversize, bool(hold))
        for field, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, field, value)


def _is_int(value: object) -> bool:
    # True would pass as 1.
    return isinstance(value, int) and not isinstance(value, bool)
