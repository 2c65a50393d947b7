"""`penstock reload`: lets a running server reload its settings and code."""

from __future__ import annotations

import argparse
from typing import Any

from penstock._cli.operations import server_process
from penstock._reload import pid_file

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "reload",
        allow_abbrev=False,
        help="reload the settings and the code of a running server",
        description="Sends SIGHUP to a running `penstock serve`, which reads its settings again and reloads its code. "
        "No request fails. If one has errors, the old settings or models stay, and the server's log has the reason.",
    )
    server_process.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: there is no such server.
    """
    found = server_process.find(options)
    if found is None:
        return 2
    number, path = found
    pid_file.request_reload(number, path)
    print(f"penstock: requested a reload from process {number}; its log has the result", flush=True)
    return 0
