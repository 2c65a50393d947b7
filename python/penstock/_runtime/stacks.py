"""Stacks of all threads on a signal, which needs no GIL: for `/debug/stacks` and `penstock stacks`."""

from __future__ import annotations

import faulthandler
import os
import signal
from contextlib import suppress
from pathlib import Path

__all__ = ["NAME", "children_of", "register"]

NAME = "penstock-stacks"
"""Name of the memory file, by which others find it in `/proc/PID/fd`. The Rust core reads it."""

_OFFSET = 5
"""The signal is SIGRTMIN plus this number."""

_registered: list[int] = []
"""Descriptor of the memory file, once the signal is handled."""


def register() -> None:
    """Lets the signal write the stacks of all threads to a memory file. Does nothing if the program handles it."""
    if _registered or not hasattr(signal, "SIGRTMIN") or not hasattr(os, "memfd_create"):
        return
    number = signal.SIGRTMIN + _OFFSET
    if _is_caught(number):
        return
    import fcntl

    with suppress(OSError, RuntimeError):
        file = os.memfd_create(NAME)
        # A reader empties the file; the next stacks begin at its start.
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
        faulthandler.register(number, file=file, all_threads=True, chain=False)
        _registered.append(file)


def children_of(process: int) -> list[int]:
    """Numbers of the child processes that handle the signal."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name, in parentheses, may have spaces and parentheses.
            parent = int(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
            if parent == process and _has_file(path.parent):
                found.append(int(path.parent.name))
    return sorted(found)


def _has_file(process: Path) -> bool:
    return any(NAME in os.readlink(one) for one in process.joinpath("fd").iterdir())


def _is_caught(number: int) -> bool:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(caught >> (number - 1) & 1)
