"""`penstock attach`: serves the models of files behind a running server."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType
from typing import Any

from penstock import logs
from penstock._runtime import progress
from penstock._runtime.console import echo
from penstock._serve.signals import Signals
from penstock.errors import PenstockError, StartupError

__all__ = ["add_parser", "run"]

_POLL_INTERVAL = 0.1
"""Seconds between two checks for a signal."""

_DRAIN = 30.0
"""Seconds that requests have to finish."""

_CUT = 3


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "attach",
        allow_abbrev=False,
        help="serve models behind a running server",
        description="Attaches the models of files and modules to a server of the same machine and user, which was "
        "started with --attach, until SIGINT, SIGTERM or the end of the server. The models run in this process.",
        epilog="Exit status: 0 nothing was cut off, 1 the start failed, 2 wrong usage, 3 requests were cut off.",
    )
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        help="server address: http://HOST:PORT, or its --attach unix:/path (default: the variable PENSTOCK_URL)",
    )
    parser.add_argument("targets", nargs="+", metavar="PATH[:object]", help="file or module, as for serve")
    parser.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="time to wait for the server (default: 30 s)"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: a model cannot be loaded or attached.
    """
    from penstock._attach.attach import attach
    from penstock._loading import targets

    def waits(reason: str) -> None:
        echo(f"penstock: {options.address}: {reason}; waits for one for up to {options.timeout:g} s")

    logs.setup_console("info")
    with progress.shown(", ".join(options.targets)):
        models = [model for target in options.targets for model in targets.load(target)]
    logs.release_console()
    try:
        attached = attach(options.address, *models, timeout=options.timeout, on_wait=waits)
    except PenstockError as error:
        raise error if isinstance(error, StartupError) else StartupError(str(error)) from error
    with _Signals([signal.SIGINT, signal.SIGTERM]).caught() as signals:
        signals.set_target(attached, _DRAIN)
        names = ", ".join(f"{name} (version {version})" for name, version in attached.models)
        echo(f"penstock: attached to {options.address}: {names}", sys.stdout)
        while not signals.count:
            if attached.wait(_POLL_INTERVAL):
                echo(f"penstock: {attached.reason}")
                return 0
        echo(f"penstock: detaching: requests have {_DRAIN:g} s to finish; signal again to end at once")
        return 0 if attached.detach(_DRAIN) else _CUT


class _Signals(Signals):
    def handle(self, number: int, frame: FrameType | None) -> None:
        super().handle(number, frame)
        if self.count > 1:
            raise SystemExit(_CUT)
