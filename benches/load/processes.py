"""Processes of a server: start, cost as counted by Linux, and end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_GENTLE = ((signal.SIGINT, 5.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 2.0))


@dataclass(frozen=True)
class _Entry:
    pid: int
    parent: int
    session: int
    state: str
    ticks: int


def free_ports(count: int) -> list[int]:
    """Free ports of this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def busy_seconds() -> float:
    """Processor seconds of the whole machine, on all cores."""
    user, nice, system, _idle, _wait, interrupt, soft, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + interrupt + soft) / _TICKS


class Processes:
    """A server's process and its descendants."""

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        with log.open("w") as output:
            self._leader = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._seen: set[int] = set()

    def ended(self) -> int | None:
        """The exit status; None while it runs."""
        return self._leader.poll()

    def until_ready(self, url: str, seconds: float) -> None:
        """Waits until a page is served.

        Raises:
            RuntimeError: the wait timed out, or the server has ended; with the end of its log.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.ended() is None:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError(f"the server did not start: {self.log.read_text(errors='replace')[-1000:]}")

    def cpu_seconds(self) -> float:
        """Processor time of all of them so far."""
        return sum(entry.ticks for entry in self._tree()) / _TICKS

    def memory_mb(self) -> float:
        """Memory: pages that are shared count in parts (PSS)."""
        return round(sum(map(_pss_kb, (entry.pid for entry in self._tree()))) / 1000, 1)

    def count(self) -> int:
        """Number of processes."""
        return len(self._tree())

    def stop(self) -> None:
        """Ends the server with increasingly forceful signals: first the leader, then all known processes."""
        self._tree()
        for number, patience in _GENTLE:
            pids = [self._leader.pid] if number == signal.SIGINT else self._alive()
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                self._leader.poll()
                if not self._alive():
                    self._leader.wait()
                    return
                time.sleep(0.05)

    def _tree(self) -> list[_Entry]:
        """The leader's session and descendants, including known processes that lost their parent."""
        entries = {entry.pid: entry for entry in _entries()}
        found = {self._leader.pid}
        found |= {entry.pid for entry in entries.values() if entry.session == self._leader.pid}
        grew = True
        while grew:
            more = {entry.pid for entry in entries.values() if entry.parent in found} - found
            found |= more
            grew = bool(more)
        self._seen |= found
        return [entries[pid] for pid in found & entries.keys() if entries[pid].state != "Z"]

    def _alive(self) -> list[int]:
        self._tree()
        return [entry.pid for entry in _entries() if entry.pid in self._seen and entry.state != "Z"]


def _entries() -> Iterable[_Entry]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name may contain spaces and parentheses; the rest does not.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has just ended
        state, parent, session = fields[0], int(fields[1]), int(fields[3])
        yield _Entry(int(folder.name), parent, session, state, int(fields[11]) + int(fields[12]))


def _pss_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
