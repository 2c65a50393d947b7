"""Keeps the loader and the servers on one core while one request at a time is measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_core() -> Iterator[None]:
    """Pins this process, and those that it starts meanwhile, to one core.

    A call has several threads wake each other. Between cores, a wake-up takes 1 to 50 microseconds, depending on the
    placement of threads and on sleeping cores, which is more than the differences to be measured. On one core, only
    the work of a call remains.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
