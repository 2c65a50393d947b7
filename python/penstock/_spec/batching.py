"""`Batching`: how the rows of several requests share one call of the handler; `BatchTooLarge`: when they cannot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeGuard

from penstock._spec.cost import Cost
from penstock.errors import TooLarge

__all__ = ["BatchTooLarge", "Batching"]

DEFAULT_MAX_SIZE = 64


class BatchTooLarge(TooLarge):
    """A handler raises it for a batch that its memory does not hold: the next ones have half as many rows at most.

    With `Batching(retry_on_oom=True)` the requests of the batch are computed again, in smaller batches.
    Else they are refused as `Overloaded`. A request that was alone is refused as `TooLarge`.
    """


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
        sizes: The only sizes that the handler is to see, for one that is compiled or tuned for these. A batch
            is filled up to the next one, and what is computed for the filling is thrown away. `max_size` is then
            the largest of them.
        pad: What a batch is filled up with: its last row again ("last", or True), or zeros ("zeros").
        retry_on_oom: Whether a batch for which the handler raises `BatchTooLarge`, or an exception whose class
            is called `OutOfMemoryError`, is computed again in smaller ones. Inputs are then kept, twice the
            memory, until their batch is answered.
        cost: What a row costs by its sizes, as `Dim("tokens")` or `Dim("tokens") ** 2`. The rows of a batch then
            cost at most `max_cost` together. A request that costs more is refused, or parted with
            `oversize="split"`.
        max_cost: The most that the rows of a batch cost together.
        window: Which rows share a batch where their lengths may differ (`Tensor(ragged=True)` or `Tensor(pad=...)`):
            those that are at most so many times as long, or as short, as the oldest one; or those between the same
            two of a list of lengths.
        target_p99: The latency, in seconds or as a `timedelta`, that nearly all requests are to have in the server. By
            what batches are learned to take, they are kept short enough and waits for company end early enough.
        reject_late: Whether a request is refused at once, as `Overloaded`, that could not be answered within
            `target_p99` even at best.
        max_duration: What a batch of several requests may be expected to take, in seconds or as a `timedelta`: it has
            so many rows as were learned to fit. One request may always go.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Batching(max_size=32, max_delay=0.002)
        >>> Batching(max_size=256, cost=Dim("tokens"), max_cost=16384)
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
    sizes: tuple[int, ...]
    """The sizes that the handler sees, ascending; none where it sees any."""
    pad: Literal["last", "zeros"]
    """What a batch is filled up with."""
    retry_on_oom: bool
    """Whether a batch that is too large for the memory is computed again in smaller ones."""
    cost: Cost | None
    """What a row costs by its sizes; None where batches are bounded by rows alone."""
    max_cost: int | None
    """The most that the rows of a batch cost together."""
    window: float | tuple[int, ...] | None
    """Which lengths share a batch: up to a ratio, or between boundaries, ascending; None for all."""
    target_p99: float | None
    """The latency that batches are to keep for nearly all requests, in seconds; None for none."""
    reject_late: bool
    """Whether a request is refused that could not be answered within it."""
    max_duration: float | None
    """What a batch of several requests may be expected to take, in seconds; None for any time."""

    def __init__(
        self,
        max_size: int | None = None,
        *,
        dynamic: bool = True,
        max_delay: float | timedelta = 0.0,
        preferred_sizes: Iterable[int] = (),
        oversize: Literal["refuse", "split"] = "refuse",
        hold: bool = True,
        sizes: Iterable[int] = (),
        pad: Literal["last", "zeros", True] = "last",
        retry_on_oom: bool = False,
        cost: Cost | None = None,
        max_cost: int | None = None,
        window: float | Iterable[int] | None = None,
        target_p99: float | timedelta | None = None,
        reject_late: bool = False,
        max_duration: float | timedelta | None = None,
    ) -> None:
        allowed = _allowed(sizes, max_size)
        max_size = (allowed[-1] if allowed else DEFAULT_MAX_SIZE) if max_size is None else max_size
        seconds = max_delay.total_seconds() if isinstance(max_delay, timedelta) else float(max_delay)
        preferred = tuple(sorted(set(preferred_sizes)))
        if not _is_int(max_size) or not 1 <= max_size < 2**31:
            raise ValueError(f"Batching: max_size must be an integer of 1 or more, not {max_size!r}")
        if not 0.0 <= seconds < float("inf"):
            raise ValueError(f"Batching: max_delay must be 0 seconds or more, not {max_delay!r}")
        for size in preferred:
            if not _is_int(size) or not 1 <= size <= max_size:
                raise ValueError(f"Batching: preferred size {size!r} is not between 1 and max_size {max_size}")
        if oversize not in ("refuse", "split"):
            raise ValueError(f"Batching: oversize must be 'refuse' or 'split', not {oversize!r}")
        if pad is not True and pad not in ("last", "zeros"):
            raise ValueError(f"Batching: pad must be 'last' or 'zeros', not {pad!r}")
        _check_cost(cost, max_cost)
        filling = "last" if pad is True else pad
        values: tuple[object, ...] = (int(max_size), bool(dynamic), seconds, preferred, oversize, bool(hold))
        values += (allowed, filling, bool(retry_on_oom), cost, max_cost, _window(window))
        values += (_target(target_p99, reject_late=reject_late, cost=cost), bool(reject_late))
        values += (_duration(max_duration, cost),)
        for field, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, field, value)


def _allowed(sizes: Iterable[int], max_size: int | None) -> tuple[int, ...]:
    given = tuple(sizes)
    for size in given:
        if not _is_int(size) or not 1 <= size < 2**31:
            raise ValueError(f"Batching: size {size!r} must be an integer of 1 or more")
    allowed = tuple(sorted(set(given)))
    if allowed and max_size is not None and max_size != allowed[-1]:
        raise ValueError(f"Batching: max_size {max_size!r} is not the largest of the sizes, {allowed[-1]}")
    return allowed


def _window(window: object) -> float | tuple[int, ...] | None:
    if window is None:
        return None
    if isinstance(window, (int, float)) and not isinstance(window, bool):
        if not 1.0 <= window < float("inf"):
            raise ValueError(f"Batching: window must be a ratio of 1 or more, not {window!r}")
        return float(window)
    if isinstance(window, Iterable):
        edges = tuple(window)
        if edges and all(_is_int(edge) and 0 < edge < 2**63 for edge in edges):
            return tuple(sorted(set(edges)))
    raise ValueError(f"Batching: window must be a ratio, or lengths of 1 or more, not {window!r}")


def _target(target: object, *, reject_late: bool, cost: object) -> float | None:
    if target is None:
        if reject_late:
            raise ValueError("Batching: reject_late goes by target_p99, which is not given")
        return None
    seconds = _seconds("target_p99", target)
    if reject_late and cost is not None:
        raise ValueError("Batching: reject_late goes by rows; it does not go with cost")
    return seconds


def _duration(duration: object, cost: object) -> float | None:
    if duration is None:
        return None
    seconds = _seconds("max_duration", duration)
    if cost is not None:
        raise ValueError("Batching: max_duration goes by rows; it does not go with cost")
    return seconds


def _seconds(name: str, given: object) -> float:
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0.0 < seconds <= 3600.0:
        raise ValueError(f"Batching: {name} must be above 0 and at most 3600 seconds, not {given!r}")
    return float(seconds)


def _check_cost(cost: object, max_cost: object) -> None:
    if cost is None and max_cost is None:
        return
    if not isinstance(cost, Cost):
        raise ValueError(
            f"Batching: cost must be made of Dim, as in Dim('tokens') or Dim('tokens') ** 2, not {cost!r}; the server "
            "computes it while requests arrive, where no Python runs"
        )
    if not _is_int(max_cost) or not 1 <= max_cost < 2**63:
        raise ValueError(f"Batching: max_cost must be an integer of 1 or more, not {max_cost!r}")


def _is_int(value: object) -> TypeGuard[int]:
    # True would pass as 1.
    return isinstance(value, int) and not isinstance(value, bool)
