"""State of the interpreter: reports a global lock that is on without need."""

from __future__ import annotations

import logging
import sys
import sysconfig

__all__ = ["report_lock"]


def report_lock() -> None:
    """Logs a warning if this is a free-threaded interpreter whose global lock (GIL) is on.

    A free-threaded build (PEP 703) enables the lock when it imports an extension module that does not declare
    support. Python's own `RuntimeWarning` then names that module. `penstock` declares support.
    """
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return
    # Present from CPython 3.13 on, as are free-threaded builds.
    holds: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    if holds:
        logging.getLogger("penstock").warning(
            "this interpreter is free-threaded, but has its global lock (GIL) on, so handlers on threads compute one "
            "at a time: an extension module that was imported asks for it, which Python's own RuntimeWarning names; "
            "PYTHON_GIL=0 keeps the lock off, at the risk of that module"
        )
