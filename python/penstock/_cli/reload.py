"""`penstock reload`: asks a running server to load its code anew."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from penstock._reload import pid_file
from penstock.config import load_config

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "reload",
        allow_abbrev=False,
        help="have a running server load its code anew",
        description="Asks a running `penstock serve` to load its files anew, as SIGHUP does. No request fails; if the "
        "code is broken, what serves goes on, and the server's log says why.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pid", type=int, metavar="N", help="the server's process")
    which.add_argument(
        "--pid-file", metavar="FILE", help="the file that it was given as pid_file (default: the setting)"
    )
    parser.add_argument("--config", metavar="FILE", help="the configuration file (default: penstock.toml, if there)")


def run(options: argparse.Namespace) -> int:
    """Carries it out, and gives the exit status.

    Raises:
        StartupError: there is no such server.
    """
    number = options.pid
    if number is None:
        path = options.pid_file or load_config(file=options.config).pid_file
        if path is None:
            print(
                "penstock reload: error: which server? give --pid, --pid-file, or the setting pid_file", file=sys.stderr
            )
            return 2
        number = pid_file.process_of(path)
    elif number <= 0:
        print(f"penstock reload: error: --pid: {number} is no process", file=sys.stderr)
        return 2
    pid_file.ask_process(number)
    print(f"penstock: asked process {number} to load its code anew; its log says when it has", flush=True)
    return 0
