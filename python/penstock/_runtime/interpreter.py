"""What the interpreter tells of itself: whether handlers on threads compute at once."""

from __future__ import annotations

import logging
import sys
import sysconfig

__all__ = ["report_lock"]


def report_lock() -> None:
    """Logs a warning if this interpreter could do without its global lock but has it.

    One that is built free-threaded (PEP 703) turns its lock on when an extension module is imported that does not
    declare that it needs none. Its own `RuntimeWarning` then names that module; `penstock` is none of these.
    """
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return
    # There from CPython 3.13 on, as are interpreters without the lock.
    holds: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    if holds:
        logging.getLogger("penstock").warning(
            "this interpreter is free-threaded, but has its global lock (GIL) on, so handlers on threads compute one "
            "at a time: an extension module that was imported asks for it, which Python's own RuntimeWarning names; "
            "PYTHON_GIL=0 keeps the lock off, at the risk of that module"
        )
