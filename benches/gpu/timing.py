"""Times of GPU work: by CUDA events, and by the host's clock until the device has finished."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Times:
    """Medians in milliseconds."""

    events: float
    wall: float


def times(action: Callable[[], Any], *, repeats: int = 20, warm_up: int = 3) -> Times:
    """Medians of single runs, with a synchronisation after each."""
    for _ in range(warm_up):
        action()
    torch.cuda.synchronize()
    events, walls = [], []
    for _ in range(repeats):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start = time.perf_counter()
        first.record()
        action()
        last.record()
        torch.cuda.synchronize()
        walls.append((time.perf_counter() - start) * 1000)
        events.append(first.elapsed_time(last))
    return Times(statistics.median(events), statistics.median(walls))


def per_second(action: Callable[[], Any], *, seconds: float, cpu: bool) -> float:
    """Runs per second of a loop, whose device work has finished at its end."""
    synchronize = (lambda: None) if cpu else torch.cuda.synchronize
    for _ in range(1 if cpu else 3):
        action()
    synchronize()
    start, count = time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        action()
        count += 1
        if count % 8 == 0:
            # Bounds the launches that are queued on the device.
            synchronize()
    synchronize()
    return count / (time.perf_counter() - start)


def milliseconds(action: Callable[[], Any], *, repeats: int = 1) -> float:
    """The median duration of calls on the host."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        found.append((time.perf_counter() - start) * 1000)
    return statistics.median(found)
