"""`Measured`: counts and latencies of one round, as the compiled extension returns them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

__all__ = ["Bucket", "ErrorRecord", "Measured", "quantiles", "reduced"]

Bucket = tuple[int, int, int]
"""Lowest and highest value in nanoseconds, and number of values."""
ErrorRecord = tuple[str, "int | None", int, str]
"""Kind, HTTP status or gRPC code, number, and first message."""


class Measured(TypedDict):
    """One round."""

    seconds: float
    succeeded: int
    in_time: int
    """Successful responses within the seconds."""
    bytes: int
    """Bytes of the bodies of successful responses."""
    sizes: tuple[int, int] | None
    """Smallest and largest of these bodies."""
    late: int
    unsent: int
    latency_sum: float
    """Seconds."""
    latency_range: tuple[int, int] | None
    """Nanoseconds."""
    buckets: list[Bucket]
    """Latencies of successful responses, lowest first."""
    errors: list[ErrorRecord]


def quantiles(buckets: Sequence[Bucket], shares: Iterable[float]) -> list[float]:
    """Values in nanoseconds below or at which these shares of all values lie; shares are from 0 to 1, ascending.

    A value is the middle of its bucket. Without values the result is empty.
    """
    total = sum(count for _, _, count in buckets)
    if not total:
        return []
    found, seen, place = [], 0, -1
    for share in shares:
        # At least one value, and no rounding above the number of all.
        rank = min(max(1, -int(-share * total // 1)), total)
        while seen < rank:
            place += 1
            seen += buckets[place][2]
        low, high, _ = buckets[place]
        found.append((low + high) / 2)
    return found


def reduced(buckets: Iterable[Bucket], per_doubling: int = 16) -> list[Bucket]:
    """A shorter histogram, of that many buckets for each doubling of the values."""
    found: list[Bucket] = []
    for low, _, count in buckets:
        shift = max(low.bit_length() - per_doubling.bit_length(), 0)
        start = low >> shift << shift
        if found and found[-1][0] == start:
            found[-1] = (start, found[-1][1], found[-1][2] + count)
        else:
            found.append((start, start + (1 << shift) - 1, count))
    return found
