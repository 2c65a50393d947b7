"""`FileWatch`: notices changes of the served code's files."""

from __future__ import annotations

import os
import threading
from typing import TypeAlias

from penstock._reload.code import Code

__all__ = ["FileWatch"]

POLL_INTERVAL = 0.25
"""Seconds between two checks of the files."""

FileStates: TypeAlias = dict[str, tuple[int, int]]
"""Modification time in nanoseconds and size of each file."""


class FileWatch:
    """The files of some code, and their states at its last load.

    Args:
        code: The code.
    """

    def __init__(self, code: Code) -> None:
        self._code = code
        self._failed = False
        self._states: FileStates = {}

    @property
    def count(self) -> int:
        """Number of files that are watched."""
        return len(self._states)

    def start(self) -> None:
        """Starts from the present state of the files."""
        self._states = self._file_states(siblings=False)

    def begin(self) -> FileStates:
        """The states before a load, for `finish`. With siblings of the files, since any of them may be imported."""
        return self._file_states(siblings=True)

    def finish(self, before: FileStates, *, failed: bool) -> None:
        """Ends a load. Changes since `begin` count as changes after it."""
        self._failed = failed
        now = self._file_states(siblings=failed)
        # After a failure, a file that appeared meanwhile may be the missing one, so it counts as a change.
        known = before if failed else {**now, **before}
        self._states = {path: known[path] for path in now if path in known}

    def changed(self, interrupted: threading.Event) -> list[str]:
        """The files that have changed and are complete: in the same state at two checks. Empty when interrupted."""
        now = self._file_states(siblings=self._failed)
        if now == self._states:
            return []
        while not interrupted.wait(POLL_INTERVAL / 2) and (later := self._file_states(siblings=self._failed)) != now:
            now = later
        return sorted(path for path in {*now, *self._states} if now.get(path) != self._states.get(path))

    def _file_states(self, *, siblings: bool) -> FileStates:
        """States of the code's files, and with `siblings` of others in their folders: a missing module may appear."""
        files = self._code.files()
        if siblings:
            files |= {entry.path for folder in self._code.folders() for entry in _entries(folder)}
        return {path: state for path in files if (state := _state(path))}


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name.endswith(".py")]
    except OSError:
        return []


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
