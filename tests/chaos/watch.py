"""What the server holds, from outside, second by second."""

from __future__ import annotations

import os
import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from faults.settled import held, memory_kb

ALLOWED = {"memory_kb": 48_000, "descriptors": 24, "threads": 6}
"""How much more of each the last quarter may hold than the second one, by their medians. Allocators keep some slack."""


def children(process: int) -> list[int]:
    """The processes that its threads have started and that were not waited for."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(number) for one in lists for number in one.read_text().split()]


@dataclass
class Watch:
    """Samples of a process."""

    process: int
    times: list[float] = field(default_factory=list)
    samples: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in ALLOWED})
    ends: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Samples until it is told to end, or the process is gone."""
        began = time.monotonic()
        while not self.ends.wait(0.5) and os.path.exists(f"/proc/{self.process}"):
            threads, descriptors = held(self.process)
            taken = {"memory_kb": memory_kb(self.process), "descriptors": descriptors, "threads": threads}
            self.times.append(time.monotonic() - began)
            for name, value in taken.items():
                self.samples[name].append(value)

    def growth(self) -> dict[str, dict[str, float]]:
        """The medians of the second and the last quarter, and the slope between them per hour."""
        quarter = len(self.times) // 4
        hours = (self.times[-1] - self.times[0]) / 2 / 3600
        found = {}
        for name, values in self.samples.items():
            second, last = (statistics.median(part) for part in (values[quarter : 2 * quarter], values[3 * quarter :]))
            found[name] = {
                "second_quarter": second,
                "last_quarter": last,
                "slope_per_hour": (last - second) / hours,
                "leaks": last - second > ALLOWED[name],
            }
        return found
