"""Keeps the loader and the servers on one core while one request at a time is measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_core() -> Iterator[None]:
    """Holds this process, and those that it starts meanwhile, to one core.

    A call has several threads wake each other. Between cores a wake takes from 1 to 50 microseconds, as the scheduler
    happens to place them and a core happens to sleep, which is more than what is to be seen. On one core what is left
    is the work that a call makes.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
