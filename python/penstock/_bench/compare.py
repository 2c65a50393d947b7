"""Comparison with an earlier result: ratios of equal steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock._bench.record import Record
from penstock._bench.table import step_name

__all__ = ["compare", "lines"]

_FIGURES = ("throughput", "p50", "p90", "p99")


def compare(old: Record, steps: Sequence[Record]) -> list[Record]:
    """Of each step that both have: new, old and ratio of each figure, and whether the ranges of the rounds overlap.

    `overlaps` is None if either has a single round, and so no range.
    """
    earlier = {_key(step): step for step in old.get("steps", [])}
    found = []
    for step in steps:
        if (before := earlier.get(_key(step))) is None:
            continue
        found.append(
            {
                "concurrency": step["concurrency"],
                "rate": step["rate"],
                "figures": {
                    name: _figure(step, before, name)
                    for name in _FIGURES
                    if before["median"].get(name) and name in step["median"]
                },
            }
        )
    return found


def _key(step: Record) -> tuple[Any, Any]:
    return step["concurrency"], step["rate"]


def _figure(new: Record, old: Record, name: str) -> Record:
    (new_low, new_high), (old_low, old_high) = new["range"][name], old["range"][name]
    has_range = len(new["rounds"]) > 1 and len(old["rounds"]) > 1
    return {
        "new": new["median"][name],
        "old": old["median"][name],
        "ratio": new["median"][name] / old["median"][name],
        "overlaps": (new_low <= old_high and old_low <= new_high) if has_range else None,
    }


def lines(comparison: Sequence[Record], file: str) -> list[str]:
    """The comparison as lines for the terminal."""
    if not comparison:
        return [f"{file} has none of these steps"]
    found = [f"compared with {file}, new / old; ~ marks ranges of rounds that overlap:"]
    names = [name for name in _FIGURES if any(name in step["figures"] for step in comparison)]
    found.append("  ".join([f"{'step':>16}", *(f"{name:>14}" for name in names)]))
    for step in comparison:
        cells = []
        for figure in (step["figures"].get(name) for name in names):
            if figure is None:
                cells.append(f"{'-':>14}")
            else:
                mark = "~" if figure["overlaps"] else " "
                cells.append(f"{figure['ratio']:>13.3f}{mark}")
        found.append("  ".join([f"{step_name(step):>16}", *cells]))
    if any(figure["overlaps"] is None for step in comparison for figure in step["figures"].values()):
        found.append("single rounds have no range: --repeat 3 or more shows which differences are noise")
    return found
