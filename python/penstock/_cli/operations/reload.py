"""`penstock reload`: lets a running server reload its code."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from penstock._reload import pid_file
from penstock.config import load_config

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "reload",
        allow_abbrev=False,
        help="reload the code of a running server",
        description="Sends SIGHUP to a running `penstock serve`, which reloads its files. No request fails. If the "
        "code has errors, the old models go on, and the server's log has the reason.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pid", type=int, metavar="N", help="process number of the server")
    which.add_argument("--pid-file", metavar="FILE", help="pid file of the server (default: the setting)")
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: penstock.toml, if it exists)")


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: there is no such server.
    """
    number, path = options.pid, None
    if number is None:
        path = options.pid_file or load_config(file=options.config).pid_file
        if path is None:
            print(
                "penstock reload: error: which server? give --pid, --pid-file, or the setting pid_file", file=sys.stderr
            )
            return 2
        number = pid_file.process_of(path)
    elif number <= 0:
        print(f"penstock reload: error: --pid: {number} is not a process number", file=sys.stderr)
        return 2
    pid_file.request_reload(number, path)
    print(f"penstock: requested a reload from process {number}; its log has the result", flush=True)
    return 0
