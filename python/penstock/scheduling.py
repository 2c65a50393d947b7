"""`Queueing` and `Sequences`: whose turn a request is, and which requests belong together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Queueing", "Sequences"]


@dataclass(frozen=True, init=False, slots=True)
class Queueing:
    """How requests wait for a free instance.

    Args:
        priorities: How many levels of priority requests may name; 1 is none at all. Level 1 is served
            first. Lower levels are served when no higher one waits, however long that takes.
        default_priority: The level of requests that name none, or one beyond the levels; else the lowest.
        timeout: The longest that a request may wait, in seconds or as a `timedelta`, whatever its own
            `timeout` says; None for no limit.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Queueing(priorities=2, timeout=0.5)
    """

    priorities: int
    """How many levels of priority there are."""
    default_priority: int
    """The level of requests that name none."""
    timeout: float | None
    """The longest that a request may wait, in seconds."""

    def __init__(
        self,
        priorities: int = 1,
        *,
        default_priority: int | None = None,
        timeout: float | timedelta | None = None,
    ) -> None:
        if not _is_int(priorities) or not 1 <= priorities <= 64:
            raise ValueError(f"Queueing: priorities must be an integer from 1 to 64, not {priorities!r}")
        default = priorities if default_priority is None else default_priority
        if not _is_int(default) or not 1 <= default <= priorities:
            raise ValueError(f"Queueing: default_priority must be an integer from 1 to {priorities}, not {default!r}")
        limit = None if timeout is None else _seconds(timeout)
        if limit is not None and not 0.0 < limit < float("inf"):
            raise ValueError(f"Queueing: timeout must be more than 0 seconds or None, not {timeout!r}")
        for field, value in zip(self.__slots__, (int(priorities), int(default), limit), strict=True):
            object.__setattr__(self, field, value)


@dataclass(frozen=True, init=False, slots=True)
class Sequences:
    """Makes a model keep state between the requests of a sequence.

    Requests with the same `sequence_id` are computed in order, one at a time, by the one instance that
    holds their state: the dict `ctx.requests[i].sequence.state`. Rows of different sequences may share a
    call. A class with a method `close_sequence(sequence)` is told when a sequence is over.

    Args:
        idle_timeout: A sequence without a request for that long is given up, in seconds or as a `timedelta`.
        max_active: The most sequences at once, on all instances together; one more is refused as
            `Overloaded`.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Sequences(idle_timeout=30.0, max_active=64)
    """

    idle_timeout: float
    """After how many seconds without a request a sequence is given up."""
    max_active: int
    """The most sequences at once."""

    def __init__(self, *, idle_timeout: float | timedelta = 60.0, max_active: int = 256) -> None:
        seconds = _seconds(idle_timeout)
        if not 0.0 < seconds < float("inf"):
            raise ValueError(f"Sequences: idle_timeout must be more than 0 seconds, not {idle_timeout!r}")
        if not _is_int(max_active) or not 1 <= max_active < 2**31:
            raise ValueError(f"Sequences: max_active must be an integer of 1 or more, not {max_active!r}")
        for field, value in zip(self.__slots__, (seconds, int(max_active)), strict=True):
            object.__setattr__(self, field, value)


def _seconds(value: float | timedelta) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _is_int(value: object) -> bool:
    # True would pass as 1.
    return isinstance(value, int) and not isinstance(value, bool)
