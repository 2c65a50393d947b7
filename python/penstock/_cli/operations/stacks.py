"""`penstock stacks`: prints the Python stacks of a running server and of its processes."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from penstock._reload import pid_file
from penstock._runtime import stacks
from penstock.config import load_config
from penstock.errors import StartupError

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "stacks",
        allow_abbrev=False,
        help="print the Python stacks of a running server",
        description="Prints the Python stacks of all threads of a running server and of its processes, also while a "
        "handler holds the GIL. For the server's user and for root; the server goes on.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pid", type=int, metavar="N", help="process number of the server, or of one of its processes")
    which.add_argument("--pid-file", metavar="FILE", help="pid file of the server (default: the setting)")
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: penstock.toml, if it exists)")


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status: 1 if a process did not answer.

    Raises:
        StartupError: there is no such server, or it does not answer.
    """
    number = options.pid
    if number is None:
        path = options.pid_file or load_config(file=options.config).pid_file
        if path is None:
            print(
                "penstock stacks: error: which server? give --pid, --pid-file, or the setting pid_file", file=sys.stderr
            )
            return 2
        number = pid_file.process_of(path)
    elif not 0 < number < 1 << 31:
        print(f"penstock stacks: error: --pid: {number} is not a process number", file=sys.stderr)
        return 2
    from penstock import _core

    status = 0
    print(f"process {number}\n\n{_core.stacks(number)}", end="")
    for child in stacks.children_of(number):
        try:
            text = _core.stacks(child)
        except StartupError as error:
            # The others are printed.
            status, text = 1, f"{error}\n"
        print(f"\nprocess {child}, started by {number}\n\n{text}", end="")
    return status
