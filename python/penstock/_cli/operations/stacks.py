"""`penstock stacks`: prints the Python stacks of a running server and of its processes."""

from __future__ import annotations

import argparse
from typing import Any

from penstock._cli.operations import server_process
from penstock._runtime import stacks
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
    server_process.add_options(parser, "process number of the server, or of one of its processes")


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status: 1 if a process did not answer.

    Raises:
        StartupError: there is no such server, or it does not answer.
    """
    found = server_process.find(options)
    if found is None:
        return 2
    number, _ = found
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
