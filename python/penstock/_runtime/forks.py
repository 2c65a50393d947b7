"""What a fork of a process that serves lets go of in the child, whatever the child is for."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

__all__ = ["in_child", "keep_from_children", "let_children_keep", "watch"]

_descriptors: dict[int, tuple[int, int]] = {}
"""What children close, with the device and inode by which it is known not to be another file by now."""

in_child: set[Callable[[], object]] = set()
"""Called in each child. Whoever adds one takes it out again."""

_watched: list[bool] = []
_held = threading.local()


def watch() -> None:
    """Has every child from now on let go of what it must not keep. A second call does nothing."""
    if not _watched:
        _watched.append(True)
        os.register_at_fork(before=_hold_signals, after_in_parent=_release_signals, after_in_child=_let_go)


def keep_from_children(descriptors: Iterable[int]) -> None:
    """Has children close these: a port, or a lock, would be held for as long as they live."""
    watch()
    for descriptor in descriptors:
        with suppress(OSError):
            _descriptors[descriptor] = _identity(descriptor)


def let_children_keep(descriptor: int) -> None:
    """Takes back what was said of one, before it is closed: another file may get its number."""
    _descriptors.pop(descriptor, None)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _hold_signals() -> None:
    # A signal to a child that has not let go yet would be taken for one to this process.
    _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def _release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


def _let_go() -> None:
    from penstock import _core

    _core.forked()
    for descriptor, identity in _descriptors.items():
        with suppress(OSError):
            if _identity(descriptor) == identity:
                os.close(descriptor)
    _descriptors.clear()
    try:
        for call in list(in_child):
            # What the program did to its own signals must not keep the others from being given back.
            with suppress(Exception):
                call()
    finally:
        in_child.clear()
        _release_signals()
