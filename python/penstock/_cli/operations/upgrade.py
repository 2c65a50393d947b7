"""`penstock upgrade`: replaces a running server by its command line, started again."""

from __future__ import annotations

import argparse
import os
import signal
import time
from typing import Any

from penstock._cli.operations import server_process
from penstock._reload import identity, pid_file
from penstock.errors import StartupError

__all__ = ["add_parser", "run"]

_POLL_INTERVAL = 0.05
"""Seconds between two reads of the server's events."""

_ANSWER_TIMEOUT = 60.0
"""Seconds, beyond those that the new server has, that the old one has to report."""


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "upgrade",
        allow_abbrev=False,
        help="replace a running server by a new process, without a lost request",
        description="Sends SIGUSR2 to a running `penstock serve`, which starts its command line again and hands its "
        "sockets over once the new process is ready. If that fails, the old one goes on. Waits for the outcome.",
        epilog="Exit status: 0 the new process serves, 1 the old one goes on or there is none, 2 wrong usage.",
    )
    server_process.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: there is no such server, or the old one goes on.
    """
    found = server_process.find(options)
    if found is None:
        return 2
    number, path = found
    try:
        events = identity.Events(number)
    except PermissionError:
        raise StartupError(f"process {number} belongs to another user") from None
    except OSError:
        # The check before the signal has the reason.
        pid_file.send(signal.SIGUSR2, "can be upgraded", number, path)
        raise StartupError(f"the outcome of process {number} cannot be read on this system; its log has it") from None
    try:
        _check(number, events.read())
        pid_file.send(signal.SIGUSR2, "can be upgraded", number, path)
        new = _outcome(number, events)
    finally:
        events.close()
    print(f"penstock: process {new} serves; process {number} finishes its requests and ends", flush=True)
    return 0


def _check(number: int, before: list[dict[str, Any]]) -> None:
    """Checks that the server can take a request."""
    if not before:
        raise StartupError(f"process {number} still loads its models; nothing was sent")
    if before[-1]["event"] == "started":
        raise StartupError(f"an upgrade to process {before[-1]['pid']} is under way; nothing was sent")
    if before[-1]["event"] == "upgraded":
        raise StartupError(f"process {number} was replaced by process {before[-1]['pid']}; nothing was sent")


def _outcome(number: int, events: identity.Events) -> int:
    """The new process, once it serves.

    Raises:
        StartupError: the old one goes on.
    """
    deadline, has_started = time.monotonic() + _ANSWER_TIMEOUT, False
    while time.monotonic() < deadline:
        # Before the events are read: a process that ends may have written its last one.
        is_alive = os.path.exists(f"/proc/{number}")
        for event in events.read():
            if event["event"] == "started":
                has_started = True
                deadline = time.monotonic() + (event["timeout"] or float("inf")) + _ANSWER_TIMEOUT
            elif event["event"] == "upgraded":
                return int(event["pid"])
            # A refusal after the start is that of another request.
            elif event["event"] == "failed" or (event["event"] == "refused" and not has_started):
                raise StartupError(str(event["reason"]))
        if not is_alive:
            raise StartupError(f"process {number} has ended without a report")
        time.sleep(_POLL_INTERVAL)
    raise StartupError(f"process {number} does not report the outcome; its log may have it")
