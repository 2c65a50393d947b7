"""Identity of a `penstock serve` process, so that a signal reaches no other process, and its report of upgrades.

A server that reloads at SIGHUP holds a file in memory whose name `/proc` shows. A number from a pid file, or from the
command line, is a server's only if that process holds it. The server appends its events to the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from penstock._runtime import forks

__all__ = ["Events", "Mark", "has_proc", "is_marked", "marked"]

_NAME = "penstock-serve"

_MOST_BYTES = 1 << 20
"""Most bytes of events that are read: the file is another process's."""


class Mark:
    """The file of this process."""

    def __init__(self, file: int) -> None:
        self._file = file

    def append(self, event: Mapping[str, object]) -> None:
        """Appends an event, which readers see as a whole."""
        import json

        line = json.dumps(event).encode() + b"\n"
        with suppress(OSError):
            os.pwrite(self._file, line, os.fstat(self._file).st_size)


@contextmanager
def marked() -> Iterator[Mark | None]:
    """Marks this process as a server that reloads at SIGHUP. None where the system has no such files."""
    file = None
    with suppress(OSError, AttributeError):
        file = os.memfd_create(_NAME)
        forks.keep_from_children([file])
    try:
        yield None if file is None else Mark(file)
    finally:
        if file is not None:
            forks.let_children_keep(file)
            os.close(file)


class Events:
    """Events of a server, also after its end.

    Args:
        number: Its process.

    Raises:
        PermissionError: the process belongs to another user.
        FileNotFoundError: there is no such process, or it is not a server.
    """

    def __init__(self, number: int) -> None:
        path = _path_of(number)
        if path is None:
            raise FileNotFoundError(number)
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._read = 0

    def read(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        import json

        text = os.pread(self._file, _MOST_BYTES, self._read)
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def is_marked(number: int) -> bool:
    """True if `/proc` shows that a process is a server that reloads at SIGHUP.

    Raises:
        PermissionError: the process belongs to another user.
        FileNotFoundError: there is no such process.
    """
    return _path_of(number) is not None


def _path_of(number: int) -> str | None:
    folder = f"/proc/{number}/fd"
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            if os.readlink(f"{folder}/{name}").startswith(f"/memfd:{_NAME} "):
                return f"{folder}/{name}"
    return None


def has_proc() -> bool:
    """True if `/proc` shows the files of processes."""
    return os.path.isdir("/proc/self/fd")
