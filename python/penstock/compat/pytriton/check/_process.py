"""Process information from `/proc`, for `check.utils`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Process"]

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """A process of this machine, by its id.

    Each method raises `ProcessLookupError` after the process has ended.
    """

    pid: int

    def command(self) -> list[str]:
        """Returns the command line."""
        return [part for part in self._read("cmdline").split("\0") if part]

    def parent(self) -> int:
        """Returns the parent's id."""
        return int(self._numbers()[1])

    def state(self) -> dict[str, float | int | str]:
        """Returns status, thread count, CPU seconds, resident bytes and descriptor count."""
        fields = self._numbers()
        try:
            descriptors = len(os.listdir(f"/proc/{self.pid}/fd"))
        except PermissionError:
            descriptors = -1
        except FileNotFoundError:
            raise ProcessLookupError(self.pid) from None
        return {
            "status": fields[0],
            "num_threads": int(fields[17]),
            "cpu_seconds": (int(fields[11]) + int(fields[12])) / _TICKS,
            "rss": int(fields[21]) * _PAGE,
            "num_fds": descriptors,
        }

    def descendants(self) -> list[Process]:
        """Returns all running descendants."""
        children: dict[int, list[int]] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    children.setdefault(Process(int(entry)).parent(), []).append(int(entry))
                except ProcessLookupError:
                    continue
        found: list[Process] = []
        pending = [self.pid]
        while pending:
            children_of_pid = children.get(pending.pop(), [])
            found += map(Process, children_of_pid)
            pending += children_of_pid
        return found

    def _numbers(self) -> list[str]:
        # The second field is a name in parentheses, which may contain spaces and parentheses.
        return self._read("stat").rpartition(") ")[2].split()

    def _read(self, name: str) -> str:
        try:
            return Path(f"/proc/{self.pid}/{name}").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            raise ProcessLookupError(self.pid) from None
