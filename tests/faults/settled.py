"""A check that a fault leaks no request, byte, connection, thread or descriptor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from http_by_hand import metric_at
from waiting import until

GAUGES = ("penstock_in_flight", "penstock_queue_depth", "penstock_body_bytes")


def held(process: int) -> tuple[int, int]:
    """The threads and descriptors of a process."""
    return len(os.listdir(f"/proc/{process}/task")), len(os.listdir(f"/proc/{process}/fd"))


def memory_kb(process: int) -> int:
    """The memory that a process has resident."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@contextmanager
def settled(url: str, process: int) -> Iterator[None]:
    """Waits on exit until the server at `url` has released everything that the block made it hold."""
    assert metric_at(url, "penstock_connections") == 1
    threads, descriptors = held(process)
    yield
    for gauge in GAUGES:
        until(lambda gauge=gauge: metric_at(url, gauge) == 0, f"{gauge} to be 0")
    until(lambda: metric_at(url, "penstock_connections") == 1, "the connections to end")
    # The metrics request has a connection, which may not be closed yet.
    until(lambda: held(process)[0] <= threads, "the threads to end")
    until(lambda: held(process)[1] <= descriptors + 1, "the descriptors to be closed")
