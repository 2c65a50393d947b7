"""What happens to servers that still run when the interpreter ends.

A thread that computes while the interpreter is torn down is killed by it in mid-call, which no compiled
code survives. So running servers are stopped first; and where a handler does not return even then, the
process ends without the tear-down.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from contextlib import suppress
from typing import Protocol

from penstock._runtime import forks
from penstock._runtime.console import say

__all__ = ["watch"]

_running: weakref.WeakSet[Stoppable] = weakref.WeakSet()


class Stoppable(Protocol):
    """What runs on threads of its own."""

    def stop(self, timeout: float | None, /) -> object:
        """Ends it; what it serves has so many seconds."""

    def stuck(self) -> list[str]:
        """What has not ended."""


def watch(core: Stoppable) -> None:
    """Stops `core` at the interpreter's end, if it still runs then."""
    if not _running:
        # The hook that is registered last runs first: before those of what the handlers use.
        atexit.unregister(_stop_all)
        atexit.register(_stop_all)
    _running.add(core)
    # A child has none of their threads, and nothing to stop.
    forks.in_child.add(_running.clear)
    forks.watch()


def _stop_all() -> None:
    stuck = []
    for core in list(_running):
        core.stop(0.0)
        stuck += core.stuck()
    if not stuck:
        return
    say(f"penstock: left without waiting for handlers that do not return: {', '.join(stuck)}")
    with suppress(OSError):
        sys.stdout.flush()
    failed = getattr(sys, "last_value", None) is not None
    os._exit(1 if failed else 0)
