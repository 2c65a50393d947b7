"""Interpreter exit: stops servers that still run.

Finalization of the interpreter kills threads in the middle of a call, which crashes compiled code. So running
servers are stopped first. If a handler does not return even then, the process ends without finalization.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from contextlib import suppress
from typing import Protocol

from penstock._runtime import forks
from penstock._runtime.console import echo

__all__ = ["watch"]

_running: weakref.WeakSet[Stoppable] = weakref.WeakSet()


class Stoppable(Protocol):
    """A server or another object that runs threads."""

    def stop(self, timeout: float | None, /) -> object:
        """Stops within `timeout` seconds."""

    def stuck(self) -> list[str]:
        """Names of the parts that have not ended."""


def watch(core: Stoppable) -> None:
    """Stops `core` at interpreter exit, if it still runs then."""
    if not _running:
        # The last hook runs first: before those of the libraries that handlers use.
        atexit.unregister(_stop_all)
        atexit.register(_stop_all)
    _running.add(core)
    # A forked child does not have these threads.
    forks.in_child.add(_running.clear)
    forks.watch()


def _stop_all() -> None:
    stuck = []
    for core in list(_running):
        core.stop(0.0)
        stuck += core.stuck()
    if not stuck:
        return
    echo(f"penstock: exits without waiting for handlers that do not return: {', '.join(stuck)}")
    with suppress(OSError):
        sys.stdout.flush()
    failed = getattr(sys, "last_value", None) is not None
    os._exit(1 if failed else 0)
