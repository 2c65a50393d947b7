"""The old server's side of an upgrade: it starts its command line again, and hands its sockets over.

SIGUSR2 requests it. If the new server does not become ready, the old one goes on. `successor.py` has the other side.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock._config.sockets.hand_over import VARIABLE, HandOver
from penstock._reload.identity import Mark
from penstock._reload.pid_file import PidFile
from penstock._runtime.console import echo
from penstock._serve.program import Program
from penstock._serve.successor import FAILED, READY, SERVING, TAKE, Successor
from penstock.errors import StartupError

if TYPE_CHECKING:
    import subprocess

    from penstock._server.server import Server

__all__ = ["Upgradable", "Upgrades"]

_KILL_AFTER = 10.0
"""Seconds that a new server that is not wanted any more has to end."""

_TAKE_TIMEOUT = 30.0
"""Seconds that the new server has to take the pid file and to accept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Upgradable:
    """A server that another process can replace."""

    program: Program
    """Its command line."""
    names: Sequence[str] = ()
    """Names of its sockets from systemd."""
    successor: Successor | None = None
    """Set if it replaces a server itself."""


@dataclass(slots=True)
class _Attempt:
    """A new server that was started."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    deadline: float
    received: bytes = b""
    takes: bool = False
    """It is ready, and takes the sockets."""
    reason: str | None = None
    """The reason to end it."""
    kill_at: float = field(default=0.0)


class Upgrades:
    """Upgrades of a server, one at a time.

    Args:
        server: The server, which has started.
        upgradable: Its command line and names.
        mark: Gets the events, which `penstock upgrade` reads.
        pid_file: Its pid file, which the new server takes.
    """

    def __init__(self, server: Server, upgradable: Upgradable, mark: Mark | None, pid_file: PidFile) -> None:
        self._server, self._upgradable = server, upgradable
        self._mark, self._pid_file = mark, pid_file
        self._attempt: _Attempt | None = None
        self.replacement: int | None = None
        """The process that serves in place of this one."""
        self._report("serving")

    def request(self) -> None:
        """Starts the new server, or reports why it is not started."""
        if self._attempt is not None:
            return self._refuse(f"an upgrade to process {self._attempt.process.pid} is under way")
        if os.getpid() == 1:
            return self._refuse("process 1 cannot be replaced, because its container ends with it")
        if self._server.config.attach is not None:
            return self._refuse("attach: the models of other processes cannot be handed over")
        timeout = self._server.config.upgrade_timeout
        own, theirs = socket.socketpair()
        with theirs:
            try:
                process = self._start(theirs)
            except OSError as error:
                own.close()
                return self._fail(str(error))
        own.setblocking(False)
        self._attempt = _Attempt(process, own, time.monotonic() + (timeout or math.inf))
        self._report("started", pid=process.pid, timeout=timeout)
        echo(f"penstock: upgrade: process {process.pid} loads the models")
        return None

    def poll(self) -> int | None:
        """Does what is due. Returns the new process once it serves; None until then."""
        attempt = self._attempt
        if attempt is None:
            return None
        if attempt.reason is not None:
            self._end(attempt)
            return None
        for line in self._lines(attempt):
            word, _, reason = line.partition(" ")
            if word == READY:
                self._pid_file.release()
                attempt.takes, attempt.deadline = True, time.monotonic() + _TAKE_TIMEOUT
                with suppress(OSError):
                    attempt.channel.send(TAKE.encode())
            elif word == SERVING:
                self.replacement = attempt.process.pid
                self._report("upgraded", pid=self.replacement)
                return self.replacement
            elif word == FAILED:
                attempt.reason = reason
        if attempt.reason is None and attempt.process.poll() is not None:
            attempt.reason = _ending(attempt.process.returncode)
        if attempt.reason is None and time.monotonic() >= attempt.deadline:
            after = _TAKE_TIMEOUT if attempt.takes else self._server.config.upgrade_timeout
            attempt.reason = f"it took longer than {after:g} s"
        return None

    def finish(self) -> None:
        """Lets the new server know that systemd has its number. Call it after `poll` returned it."""
        if self._attempt is not None:
            self._attempt.channel.close()
            self._attempt = None

    def cancel(self) -> None:
        """Ends a new server that is not ready yet: this one stops."""
        if self._attempt is not None:
            with suppress(OSError):
                self._attempt.process.terminate()
            self.finish()

    def _start(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        import subprocess

        core, program = self._server._core, self._upgradable.program
        assert core is not None
        handed_over = HandOver(channel=theirs.fileno(), sockets=core.sockets, names=self._upgradable.names)
        environ = {name: value for name, value in program.environ.items() if not name.startswith("LISTEN_")}
        return subprocess.Popen(  # noqa: S603 - the command line of this process
            program.found(),
            cwd=program.folder,
            env={**environ, VARIABLE: handed_over.text()},
            pass_fds=[theirs.fileno(), *(number for _, number in core.sockets)],
        )

    def _lines(self, attempt: _Attempt) -> list[str]:
        """Lines that have come from the new server."""
        try:
            while part := attempt.channel.recv(4096):
                attempt.received += part
        except OSError:
            pass
        *lines, attempt.received = attempt.received.split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def _end(self, attempt: _Attempt) -> None:
        """Ends the new server, and reports its failure once it has ended."""
        now = time.monotonic()
        if attempt.process.poll() is None:
            if not attempt.kill_at:
                attempt.kill_at = now + _KILL_AFTER
                attempt.process.terminate()
            elif now >= attempt.kill_at:
                attempt.process.kill()
            return
        attempt.channel.close()
        self._attempt = None
        if attempt.takes:
            try:
                self._pid_file.take()
            except StartupError as error:
                # The server goes on without it.
                echo(f"penstock: upgrade: {error}")
        assert attempt.reason is not None
        self._fail(attempt.reason)

    def _fail(self, reason: str) -> None:
        text = f"the new server did not become ready: {reason}; the old one goes on (pid {os.getpid()})"
        self._report("failed", reason=text)
        echo(f"penstock: upgrade: {text}")

    def _refuse(self, reason: str) -> None:
        self._report("refused", reason=reason)
        echo(f"penstock: upgrade: {reason}")

    def _report(self, event: str, **fields: object) -> None:
        if self._mark is not None:
            self._mark.append({"event": event, **fields})


def _ending(status: int) -> str:
    if status < 0:
        with suppress(ValueError):
            return f"it was ended by {signal.Signals(-status).name}"
    return f"it ended with status {status}, and its output has the reason"
