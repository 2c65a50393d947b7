"""`Batching` and `Iterative`: options for joining requests; `BatchTooLarge`: the error of a batch that does not fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeGuard

from penstock._spec.cost import Cost
from penstock._spec.suggestions import suggest_keywords
from penstock.errors import TooLarge

__all__ = ["BatchTooLarge", "Batching", "Iterative"]

DEFAULT_MAX_SIZE = 64

_OTHER_NAMES = {
    "max_batch_size": "max_size",
    "batch_size": "max_size",
    "max_queue_delay": "max_delay",
    "max_queue_delay_microseconds": "max_delay",
    "batch_wait_timeout_s": "max_delay",
    "max_latency": "max_delay",
    "timeout": "max_delay",
    "preferred_batch_size": "preferred_sizes",
    "padding": "pad",
}
"""Options by their names in other products."""

_OTHER_NAMES_OF_ITERATIVE = {
    "max_size": "max_rows",
    "max_batch_size": "max_rows",
    "max_num_seqs": "max_rows",
    "max_tokens": "max_steps",
    "max_length": "max_steps",
}
"""Options by their names in other products, and of `Batching`."""


class BatchTooLarge(TooLarge):
    """Raised by a handler whose memory does not suffice for a batch. The next batches have at most half as many rows.

    With `Batching(retry_on_oom=True)` the requests of the batch are computed again, in smaller batches.
    Otherwise they are refused as `Overloaded`, and a single request as `TooLarge`.
    """


@dataclass(frozen=True, init=False, slots=True)
class Batching:
    """Batching of requests: the rows of several requests share one call of the handler.

    With it, every input and output has a leading batch axis, and each request has one or more rows. Without it, each
    request is one call, and there is no batch axis.

    Args:
        max_size: Limit of rows in one call.
        dynamic: Whether rows of different requests may share a call. False only adds the batch axis.
        max_delay: Time that the oldest request may wait for others, in seconds or as a `timedelta`.
            With 0, the requests that wait when an instance becomes free form a batch.
        preferred_sizes: Sizes to which a batch is cut when more rows wait.
        oversize: A request with more rows than `max_size` is refused ("refuse"), or computed in
            several calls with one response ("split").
        hold: Whether a free instance may wait a small, learned share of its batch time for the next requests of
            clients that have just received responses.
        sizes: The only batch sizes for the handler, if it is compiled or tuned for these. A batch is padded to the
            next size, and outputs of the padding are dropped. `max_size` is then the largest size.
        pad: Padding of a batch: its last row ("last", or True), or zeros ("zeros").
        retry_on_oom: Whether a batch for which the handler raises `BatchTooLarge`, or an exception whose class
            is called `OutOfMemoryError`, is computed again in smaller ones. Inputs are then retained until
            the batch has ended, which doubles their memory.
        cost: Cost of a row by its sizes, as `Dim("tokens")` or `Dim("tokens") ** 2`. The rows of a batch then
            cost at most `max_cost` together. A request that costs more is refused, or split with
            `oversize="split"`.
        max_cost: Limit of the cost of a batch.
        window: Lengths that may share a batch, for rows of different lengths (`Tensor(ragged=True)` or
            `Tensor(pad=...)`): a maximal ratio to the oldest row, or a list of boundaries.
        target_p99: Target of the 99th percentile of latency in the server, in seconds or as a `timedelta`. Batch sizes
            and waits are limited by the learned batch times.
        reject_late: Whether a request is refused at once, as `Overloaded`, that could not be answered within
            `target_p99` even at best.
        max_duration: Limit of the expected duration of a batch, in seconds or as a `timedelta`, by learned batch times.
            A single request is always allowed.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Batching(max_size=32, max_delay=0.002)
        >>> Batching(max_size=256, cost=Dim("tokens"), max_cost=16384)
    """

    max_size: int
    """Limit of rows in one call."""
    dynamic: bool
    """True if rows of different requests may share a call."""
    max_delay: float
    """Seconds that the oldest request may wait for others."""
    preferred_sizes: tuple[int, ...]
    """Sizes to which a batch is cut, ascending."""
    oversize: Literal["refuse", "split"]
    """Handling of a request with more rows than `max_size`."""
    hold: bool
    """True if instances hold for clients that return."""
    sizes: tuple[int, ...]
    """The only batch sizes for the handler, ascending; empty for any size."""
    pad: Literal["last", "zeros"]
    """Padding of a batch."""
    retry_on_oom: bool
    """True if a batch that is too large for the memory is computed again in smaller ones."""
    cost: Cost | None
    """Cost of a row by its sizes; None where only rows are limited."""
    max_cost: int | None
    """Limit of the cost of a batch."""
    window: float | tuple[int, ...] | None
    """Lengths that share a batch: a maximal ratio, or boundaries, ascending; None for all."""
    target_p99: float | None
    """Target of the 99th percentile of latency, in seconds; None for no target."""
    reject_late: bool
    """True if a request is refused that could not be answered within it."""
    max_duration: float | None
    """Limit of the expected duration of a batch, in seconds; None for no limit."""

    @suggest_keywords("Batching", _OTHER_NAMES)
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


@dataclass(frozen=True, init=False, slots=True)
class Iterative:
    """Iterative batching, also known as continuous batching: requests join and leave a batch between steps.

    For a class with a method `step(self, rows)`, which an instance calls again and again while it has rows. It returns
    a list with one entry for each `Row`, in order: a chunk without the batch axis, None for nothing at this step,
    `Final` for the end of the row, or an exception, which fails that row alone. If the class has a method
    `leave(self, row)`, it is called once for each row that has been in a step, when it has left for whatever reason.

    Args:
        max_rows: Limit of rows in an instance. Waiting requests join while there is room.
        max_steps: Limit of steps of a row. A row that has not ended by then fails.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> @model(
        ...     inputs=[Tensor("end", np.int32, [1])],
        ...     outputs=[Tensor("i", np.int32, [1])],
        ...     batching=Iterative(max_rows=16),
        ... )
        ... class Count:
        ...     def step(self, rows: list[Row]):
        ...         return [Final([row.step]) if row.step == row["end"][0] else [row.step] for row in rows]
    """

    max_rows: int
    """Limit of rows in an instance."""
    max_steps: int
    """Limit of steps of a row."""

    @suggest_keywords("Iterative", _OTHER_NAMES_OF_ITERATIVE)
    def __init__(self, max_rows: int = 16, *, max_steps: int = 4096) -> None:
        for name, value in (("max_rows", max_rows), ("max_steps", max_steps)):
            # True would pass as 1.
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
                raise ValueError(f"Iterative: {name} must be an integer of 1 or more, not {value!r}")
            object.__setattr__(self, name, value)

    @property
    def batching(self) -> Batching:
        """The batch axis of the tensors. Requests are not joined in the queue, but in the instance."""
        return Batching(self.max_rows, dynamic=False, hold=False)


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
