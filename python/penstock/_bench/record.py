"""Results as JSON: rounds, steps, and the whole benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from penstock._bench.measured import Measured, quantiles, reduced
from penstock._bench.server_statistics import ServerPart
from penstock._bench.sweep import Step

__all__ = ["FORMAT", "latency_name", "read", "round_record", "step_record", "write"]

FORMAT = "penstock-bench/1"
"""Value of `format` in a result: changes of a key's meaning change it."""

Record = dict[str, Any]


def latency_name(percentile: float) -> str:
    """The key of a percentile: `p50`, `p99.9`."""
    return f"p{percentile:g}"


def round_record(measured: Measured, percentiles: Sequence[float], server: ServerPart | None) -> Record:
    """A round, with latencies in milliseconds."""
    failed = sum(count for _, _, count, _ in measured["errors"])
    latency: dict[str, float] = {}
    if measured["latency_range"] is not None:
        low, high = measured["latency_range"]
        latency = {"mean": measured["latency_sum"] / measured["succeeded"] * 1e3, "min": low / 1e6}
        values = quantiles(measured["buckets"], [one / 100 for one in percentiles])
        for percentile, value in zip(percentiles, values, strict=True):
            # The middle of a bucket may lie outside of the exact range.
            latency[latency_name(percentile)] = min(max(value, low), high) / 1e6
        latency["max"] = high / 1e6
    return {
        "seconds": measured["seconds"],
        "requests": measured["succeeded"] + failed,
        "succeeded": measured["succeeded"],
        "failed": failed,
        "throughput": measured["in_time"] / measured["seconds"] if measured["seconds"] else 0.0,
        "latency_ms": latency,
        "histogram_ms": [(low / 1e6, high / 1e6, count) for low, high, count in reduced(measured["buckets"])],
        "response_bytes": measured["bytes"],
        "response_sizes": measured["sizes"],
        "errors": [
            {"kind": kind, "status": status, "count": count, "first": first}
            for kind, status, count, first in measured["errors"]
        ],
        "late": measured["late"],
        "unsent": measured["unsent"],
        "server": server,
    }


def step_record(step: Step, is_open: bool, rounds: Sequence[Record]) -> Record:
    """A step: its rounds, and of each figure the median and the range over them."""
    figures: dict[str, list[float]] = {"throughput": [one["throughput"] for one in rounds]}
    for name in rounds[0]["latency_ms"]:
        figures[name] = [one["latency_ms"][name] for one in rounds if name in one["latency_ms"]]
    return {
        "concurrency": None if is_open else step,
        "rate": step if is_open else None,
        "median": {name: median(values) for name, values in figures.items() if values},
        "range": {name: (min(values), max(values)) for name, values in figures.items() if values},
        "failed": sum(one["failed"] for one in rounds),
        "unsent": sum(one["unsent"] for one in rounds),
        "late": sum(one["late"] for one in rounds),
        "rounds": list(rounds),
    }


def write(file: str, result: Mapping[str, Any]) -> None:
    """Writes a result as JSON; `-` is standard output."""
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    if file == "-":
        print(text, end="", flush=True)
    else:
        Path(file).write_text(text, encoding="utf-8")


def read(file: str) -> Record:
    """Reads an earlier result.

    Raises:
        ValueError: it cannot be read, or is not a result of this command.
    """
    try:
        result = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise ValueError(f"{file} is not a result of `penstock bench --json`: expected the format {FORMAT!r}")
    return result
