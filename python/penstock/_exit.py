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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import _core

__all__ = ["watch"]

_running: weakref.WeakSet[_core.Server | _core.InProcess] = weakref.WeakSet()


def watch(core: _core.Server | _core.InProcess) -> None:
    """Stops `core` at the interpreter's end, if it still runs then."""
    if not _running:
        # The hook that is registered last runs first: before those of what the handlers use.
        atexit.unregister(_stop_all)
        atexit.register(_stop_all)
    _running.add(core)


def _stop_all() -> None:
    stuck = []
    for core in list(_running):
        core.stop(0.0)
        stuck += core.stuck()
    if not stuck:
        return
    print(f"penstock: left without waiting for handlers that do not return: {', '.join(stuck)}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    failed = getattr(sys, "last_value", None) is not None
    os._exit(1 if failed else 0)
