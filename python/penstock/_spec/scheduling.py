"""`Queueing`, `Level` and `Sequences`: priorities, queue limits, and sequences of requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

__all__ = ["Level", "Queueing", "Sequences"]

_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, init=False, slots=True)
class Level:
    """Queue limits of one priority level.

    Args:
        max_size: Limit of waiting requests; one more is refused as `Overloaded`. None: only the model's `max_queue`
            applies.
        timeout: Limit of a request's wait, in seconds or as a `timedelta`; None for that of `Queueing`.
        on_timeout: Handling of a request that exceeds it: it is refused as `Timeout` ("reject"), or moved behind all
            others of its level ("delay").

    Raises:
        ValueError: a value is out of its range; the message names it.
    """

    max_size: int | None
    """Limit of waiting requests."""
    timeout: float | None
    """Limit of a request's wait, in seconds."""
    on_timeout: Literal["reject", "delay"]
    """Handling of a request that exceeds the limit."""

    def __init__(
        self,
        *,
        max_size: int | None = None,
        timeout: float | timedelta | None = None,
        on_timeout: Literal["reject", "delay"] = "reject",
    ) -> None:
        limit = _limit("Level", timeout)
        if on_timeout not in ("reject", "delay"):
            raise ValueError(f"Level: on_timeout must be 'reject' or 'delay', not {on_timeout!r}")
        for field, value in zip(self.__slots__, (_bound("Level: max_size", max_size), limit, on_timeout), strict=True):
            object.__setattr__(self, field, value)


@dataclass(frozen=True, init=False, slots=True)
class Queueing:
    """Queue of a model: priorities, limits and fairness.

    Args:
        priorities: Number of priority levels; 1 disables priorities. Level 1 is served first. A lower level is served
            only when no higher one waits.
        default_priority: Level of requests without a valid priority; default: the lowest.
        timeout: Limit of a request's wait, in seconds or as a `timedelta`, even if the request allows more; None for
            no limit.
        max_rows: Limit of waiting rows; None for no limit but `max_queue`.
        max_bytes: Limit of waiting input bytes; None for no limit.
        fair_by: Identity of clients for fair queueing: "client", the name of `ctx.client`: its key, certificate or
            address; "api-key", the header `authorization`; or "header:NAME". The clients that wait
            on a level get equal numbers of rows.
        max_rows_per_client: Limit of waiting rows of one client; None for no limit but the model's.
        levels: Limits of single levels, by number.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Queueing(priorities=2, timeout=0.5, levels={1: Level(max_size=16)})
    """

    priorities: int
    """Number of priority levels."""
    default_priority: int
    """Level of requests without a priority."""
    timeout: float | None
    """Limit of a request's wait, in seconds."""
    max_rows: int | None
    """Limit of waiting rows."""
    max_bytes: int | None
    """Limit of waiting input bytes."""
    fair_by: str | None
    """Identity of clients for fair queueing: `client`, or `header:NAME` in lower case."""
    max_rows_per_client: int | None
    """Limit of waiting rows of one client."""
    policies: tuple[Level, ...]
    """Limits of each level, from the highest to the last one with limits."""

    def __init__(
        self,
        priorities: int = 1,
        *,
        default_priority: int | None = None,
        timeout: float | timedelta | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        fair_by: str | None = None,
        max_rows_per_client: int | None = None,
        levels: Mapping[int, Level] | None = None,
    ) -> None:
        if not _is_int(priorities) or not 1 <= priorities <= 64:
            raise ValueError(f"Queueing: priorities must be an integer from 1 to 64, not {priorities!r}")
        default = priorities if default_priority is None else default_priority
        if not _is_int(default) or not 1 <= default <= priorities:
            raise ValueError(f"Queueing: default_priority must be an integer from 1 to {priorities}, not {default!r}")
        bounds = (_bound("Queueing: max_rows", max_rows), _bound("Queueing: max_bytes", max_bytes))
        policies = _policies(levels, priorities)
        fair = _fair(fair_by, max_rows_per_client, policies)
        values = (int(priorities), int(default), _limit("Queueing", timeout), *bounds, *fair, policies)
        for field, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, field, value)


@dataclass(frozen=True, init=False, slots=True)
class Sequences:
    """Makes a model keep state between the requests of a sequence.

    Requests with the same `sequence_id` are computed in order, one at a time, by the instance that holds their state:
    the dict `ctx.requests[i].sequence.state`. Rows of different sequences may share a call. If the handler's class has
    a method `close_sequence(sequence)`, it is called at the end of a sequence.

    Args:
        idle_timeout: Time without a request after which a sequence expires, in seconds or as a `timedelta`.
        max_active: Limit of active sequences on all instances; one more is refused as `Overloaded`.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Sequences(idle_timeout=30.0, max_active=64)
    """

    idle_timeout: float
    """Seconds without a request after which a sequence expires."""
    max_active: int
    """Limit of active sequences."""

    def __init__(self, *, idle_timeout: float | timedelta = 60.0, max_active: int = 256) -> None:
        seconds = _seconds(idle_timeout)
        if not 0.0 < seconds < float("inf"):
            raise ValueError(f"Sequences: idle_timeout must be more than 0 seconds, not {idle_timeout!r}")
        if not _is_int(max_active) or not 1 <= max_active < 2**31:
            raise ValueError(f"Sequences: max_active must be an integer of 1 or more, not {max_active!r}")
        for field, value in zip(self.__slots__, (seconds, int(max_active)), strict=True):
            object.__setattr__(self, field, value)


def _policies(levels: Mapping[int, Level] | None, priorities: int) -> tuple[Level, ...]:
    for number, level in (levels or {}).items():
        if not _is_int(number) or not 1 <= number <= priorities:
            raise ValueError(f"Queueing: level {number!r} is not between 1 and priorities {priorities}")
        if not isinstance(level, Level):
            raise ValueError(f"Queueing: level {number} must be a Level, not {level!r}")
    return tuple((levels or {}).get(number, Level()) for number in range(1, max(levels or {}, default=0) + 1))


def _fair(fair_by: str | None, most: int | None, policies: tuple[Level, ...]) -> tuple[str | None, int | None]:
    bound = _bound("Queueing: max_rows_per_client", most)
    if fair_by is None:
        if bound is not None:
            raise ValueError("Queueing: max_rows_per_client needs fair_by, to tell clients apart")
        return None, None
    identity = "header:authorization" if fair_by == "api-key" else str(fair_by)
    kind, _, header = identity.partition(":")
    if identity != "client" and (kind != "header" or not _HEADER.fullmatch(header.lower())):
        raise ValueError(f"Queueing: fair_by must be 'client', 'api-key' or 'header:NAME', not {fair_by!r}")
    if any(level.on_timeout == "delay" for level in policies):
        raise ValueError("Queueing: fair_by goes with on_timeout='reject' only")
    return identity.lower(), bound


def _bound(what: str, value: int | None) -> int | None:
    if value is None:
        return None
    if not _is_int(value) or not 1 <= value < 2**63:
        raise ValueError(f"{what} must be an integer of 1 or more, or None, not {value!r}")
    return int(value)


def _limit(where: str, timeout: float | timedelta | None) -> float | None:
    limit = None if timeout is None else _seconds(timeout)
    if limit is not None and not 0.0 < limit < float("inf"):
        raise ValueError(f"{where}: timeout must be more than 0 seconds or None, not {timeout!r}")
    return limit


def _seconds(value: float | timedelta) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _is_int(value: object) -> bool:
    # True would pass as 1.
    return isinstance(value, int) and not isinstance(value, bool)
