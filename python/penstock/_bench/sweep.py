"""Lists of numbers on the command line: the steps of a sweep, and percentiles."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["Step", "concurrencies", "percentiles", "rates"]

Step = int | float
"""Requests in flight, or requests per second."""

_MOST_STEPS = 1000
_MOST_IN_FLIGHT = 1 << 20
_MOST_RATE = 1e9


def concurrencies(text: str) -> tuple[Step, ...]:
    """Numbers of requests in flight: `1,2,4`, `1:64` (doubled up to the end) or `10:50:10` (with a step).

    Raises:
        ValueError: not such a list; the message names the part.
    """
    return _steps(text, _concurrency)


def rates(text: str) -> tuple[Step, ...]:
    """Requests per second, in the forms of `concurrencies`. Fractions are allowed.

    Raises:
        ValueError: not such a list; the message names the part.
    """
    return _steps(text, _rate)


def percentiles(text: str) -> tuple[float, ...]:
    """Percentiles: `50,90,99.9`, in ascending order.

    Raises:
        ValueError: not such a list; the message names the part.
    """
    found = set()
    for part in text.split(","):
        value = _float(part)
        if not 0 < value < 100:
            raise ValueError(f"{part.strip()!r} is not a percentile: expected a number between 0 and 100")
        found.add(value)
    return tuple(sorted(found))


def _steps(text: str, number: Callable[[str], Step]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for part in text.split(","):
        steps += _range(part, number) if ":" in part else [number(part)]
        if len(steps) > _MOST_STEPS:
            raise ValueError(f"{text!r} has more than {_MOST_STEPS} steps")
    if len(set(steps)) < len(steps):
        raise ValueError(f"{text!r} has a step twice")
    return tuple(steps)


def _range(text: str, number: Callable[[str], Step]) -> list[Step]:
    parts = text.split(":")
    if len(parts) > 3:
        raise ValueError(f"{text!r} is not a range: expected START:END or START:END:STEP")
    start, end = number(parts[0]), number(parts[1])
    if end < start:
        raise ValueError(f"{text!r} is not a range: its end is below its start")
    if len(parts) == 3:
        step = number(parts[2])
        if (end - start) / step >= _MOST_STEPS:
            raise ValueError(f"{text!r} has more than {_MOST_STEPS} steps")
        return [start + index * step for index in range(math.floor((end - start) / step) + 1)]
    found = []
    while start < end:
        found.append(start)
        start *= 2
    return [*found, end]


def _concurrency(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 0 < value <= _MOST_IN_FLIGHT:
        raise ValueError(f"{text.strip()!r} is not a concurrency: expected an integer from 1 to {_MOST_IN_FLIGHT}")
    return value


def _rate(text: str) -> Step:
    value = _float(text)
    if not 0 < value <= _MOST_RATE:
        raise ValueError(f"{text.strip()!r} is not a rate: expected requests per second, above 0 and up to 1e9")
    return int(value) if value == int(value) else value


def _float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
