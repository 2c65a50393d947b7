"""Identity of a `penstock serve` process, so that a reload signals no other process.

A server that reloads at SIGHUP holds a file in memory whose name `/proc` shows. A number from a pid file, or from the
command line, is a server's only if that process holds it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock._runtime import forks

__all__ = ["has_proc", "is_marked", "marked"]

_NAME = "penstock-serve"


@contextmanager
def marked() -> Iterator[None]:
    """Marks this process as a server that reloads at SIGHUP. Does nothing where the system has no such files."""
    file = None
    with suppress(OSError, AttributeError):
        file = os.memfd_create(_NAME)
        forks.keep_from_children([file])
    try:
        yield
    finally:
        if file is not None:
            forks.let_children_keep(file)
            os.close(file)


def is_marked(number: int) -> bool:
    """True if `/proc` shows that a process is a server that reloads at SIGHUP.

    Raises:
        PermissionError: the process belongs to another user.
        FileNotFoundError: there is no such process.
    """
    folder = f"/proc/{number}/fd"
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            if os.readlink(f"{folder}/{name}").startswith(f"/memfd:{_NAME} "):
                return True
    return False


def has_proc() -> bool:
    """True if `/proc` shows the files of processes."""
    return os.path.isdir("/proc/self/fd")
