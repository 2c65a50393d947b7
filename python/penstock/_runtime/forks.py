"""Forks of a serving process: the child closes sockets and locks, and forgets servers of the parent."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

__all__ = ["in_child", "keep_from_children", "let_children_keep", "watch"]

_descriptors: dict[int, tuple[int, int]] = {}
"""Descriptors that children close. Device and inode show that the number is still the same file."""

in_child: set[Callable[[], object]] = set()
"""Callbacks for each child. The module that adds one also removes it."""

_watched: list[bool] = []
_saved = threading.local()


def watch() -> None:
    """Cleans up every child from now on. A second call does nothing."""
    if not _watched:
        _watched.append(True)
        os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_clean_up)


def keep_from_children(descriptors: Iterable[int]) -> None:
    """Closes descriptors in children: otherwise a child holds the port or lock for as long as it lives."""
    watch()
    for descriptor in descriptors:
        with suppress(OSError):
            _descriptors[descriptor] = _identity(descriptor)


def let_children_keep(descriptor: int) -> None:
    """Removes a descriptor from those that children close. Call it before closing: its number may be reused."""
    _descriptors.pop(descriptor, None)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _block_signals() -> None:
    # Until it has cleaned up, a signal to the child would act on the parent, whose wake-up socket it shares.
    _saved.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _saved.mask)


def _clean_up() -> None:
    from penstock import _core

    _core.mark_forked()
    for descriptor, identity in _descriptors.items():
        with suppress(OSError):
            if _identity(descriptor) == identity:
                os.close(descriptor)
    _descriptors.clear()
    try:
        for call in list(in_child):
            # One failing callback, for example in restoring signals, must not prevent the others.
            with suppress(Exception):
                call()
    finally:
        in_child.clear()
        _unblock_signals()
