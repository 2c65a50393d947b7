"""Table of steps in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock._bench.plan import BenchSettings
from penstock._bench.record import Record, latency_name

__all__ = ["Table", "error_lines", "mean_batch", "milliseconds", "server_ms", "step_name"]


class Table:
    """A table whose rows are written one by one, so its columns have fixed widths.

    Args:
        settings: Settings of the benchmark.
        has_statistics: True for the columns of the server.
    """

    def __init__(self, settings: BenchSettings, *, has_statistics: bool) -> None:
        self._settings, self._has_statistics = settings, has_statistics

    def header(self) -> str:
        """The line of headings."""
        return "  ".join(f"{name:>{width}}" for name, width in self._columns())

    def row(self, step: Record) -> str:
        """The line of a step: medians of its rounds."""
        cells = [step_name(step).split()[-1]]
        cells.append(f"{step['median']['throughput']:,.{0 if step['median']['throughput'] >= 100 else 1}f}")
        if self._settings.repeat > 1:
            low, high = step["range"]["throughput"]
            cells.append(f"{low:,.0f}-{high:,.0f}")
        names = [*map(latency_name, self._settings.percentiles), "max"]
        cells += [milliseconds(step["median"].get(name)) for name in names]
        cells.append(f"{step['failed']:,}")
        if self._settings.is_open:
            cells += [f"{step['late']:,}", f"{step['unsent']:,}"]
        if self._has_statistics:
            cells += [milliseconds(server_ms(step, "queue")), milliseconds(server_ms(step, "compute"))]
            batch = mean_batch(step)
            cells.append("-" if batch is None else f"{batch:.2f}")
        return "  ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, self._columns(), strict=True))

    def _columns(self) -> list[tuple[str, int]]:
        """Headings and widths."""
        columns = [("rate" if self._settings.is_open else "concurrency", 11), ("req/s", 9)]
        if self._settings.repeat > 1:
            columns.append(("range", 17))
        columns += [(f"{latency_name(one)} ms", 9) for one in self._settings.percentiles]
        columns += [("max ms", 9), ("errors", 7)]
        if self._settings.is_open:
            columns += [("late", 7), ("unsent", 7)]
        if self._has_statistics:
            columns += [("queue ms", 9), ("compute ms", 10), ("batch", 6)]
        return columns


def step_name(step: Record) -> str:
    """`concurrency 8` or `rate 100`."""
    return f"concurrency {step['concurrency']}" if step["rate"] is None else f"rate {step['rate']:.15g}"


def milliseconds(value: float | None) -> str:
    """Milliseconds with three significant digits."""
    if value is None:
        return "-"
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


def server_ms(step: Record, part: str) -> float | None:
    """Mean milliseconds of a request in a part of the server, or in all of its `compute`; None without statistics."""
    parts = [one["server"]["split_ms"] for one in step["rounds"] if one["server"] is not None]
    if not parts:
        return None
    values = [sum(value for name, value in one.items() if name.startswith(part)) for one in parts]
    return float(sum(values)) / len(values)


def mean_batch(step: Record) -> float | None:
    """Mean rows of a batch; None without batches."""
    servers = [one["server"] for one in step["rounds"] if one["server"] is not None]
    calls = sum(one["executions"] for one in servers)
    return sum(one["rows"] for one in servers) / calls if calls else None


def error_lines(steps: Sequence[Record]) -> Iterator[str]:
    """Lines for the errors of each step, by kind with their first message."""
    for step in steps:
        name = step_name(step)
        counts: dict[tuple[str, int | None], tuple[int, str]] = {}
        for one in step["rounds"]:
            for error in one["errors"]:
                key = (error["kind"], error["status"])
                before, first = counts.get(key, (0, error["first"]))
                counts[key] = (before + error["count"], first)
        for (kind, status), (count, first) in sorted(counts.items(), key=lambda item: -item[1][0]):
            code = "" if status is None else f" ({status})"
            yield f"{name}: {count:,} {kind}{code}: {' '.join(first.split())}"
