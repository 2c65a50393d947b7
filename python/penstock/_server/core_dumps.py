"""Core dumps of the server and its child processes: a dump has the keys, certificates and tensors in memory."""

from __future__ import annotations

import logging
import resource

__all__ = ["limit"]

_NO_DUMP = 1
"""Bytes of a dump that Linux does not write. With 0 it would still be piped to a program that
`/proc/sys/kernel/core_pattern` names; 1 keeps it from that too, see core(5) and `do_coredump` of the kernel."""


def limit(mode: str) -> None:
    """Sets the soft limit of core dumps of this process; child processes inherit it.

    Args:
        mode: "off" for no dumps, "on" for dumps as large as the hard limit allows, "inherit" leaves the limit.
    """
    if mode == "inherit":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    soft = hard if mode == "on" else _NO_DUMP if hard == resource.RLIM_INFINITY else min(_NO_DUMP, hard)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    except (OSError, ValueError):
        # Some sandboxes forbid it.
        logging.getLogger("penstock").warning("core_dumps: the limit of core dumps cannot be set here")
        return
    if mode == "on" and hard == 0:
        logging.getLogger("penstock").warning("core_dumps is on, but the hard limit of core dumps is 0 (ulimit -c)")
