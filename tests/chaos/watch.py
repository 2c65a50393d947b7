"""Samples of the memory, descriptors and threads of the server."""

from __future__ import annotations

import os
import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from faults.settled import held, memory_kb

ALLOWED = {"memory_kb": 48_000, "descriptors": 24, "threads": 6}
"""Allowed growth of the medians from the second to the last quarter. Allocators retain some slack."""


def children(process: int) -> list[int]:
    """Child processes of all threads that were not waited for."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(number) for one in lists for number in one.read_text().split()]


@dataclass
class Watch:
    """Samples of a process."""

    process: int
    times: list[float] = field(default_factory=list)
    samples: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in ALLOWED})
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Samples until `stop` is set or the process has exited."""
        start = time.monotonic()
        while not self.stop.wait(0.5) and os.path.exists(f"/proc/{self.process}"):
            threads, descriptors = held(self.process)
            sample = {"memory_kb": memory_kb(self.process), "descriptors": descriptors, "threads": threads}
            self.times.append(time.monotonic() - start)
            for name, value in sample.items():
                self.samples[name].append(value)

    def growth(self) -> dict[str, dict[str, float]]:
        """Medians of the second and the last quarter, and the slope between them per hour."""
        quarter = len(self.times) // 4
        hours = (self.times[-1] - self.times[0]) / 2 / 3600
        growth = {}
        for name, values in self.samples.items():
            second, last = (statistics.median(part) for part in (values[quarter : 2 * quarter], values[3 * quarter :]))
            growth[name] = {
                "second_quarter": second,
                "last_quarter": last,
                "slope_per_hour": (last - second) / hours,
                "leaks": last - second > ALLOWED[name],
            }
        return growth
