"""Options of the commands that find a running server on this machine by its process number."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from penstock._reload import pid_file
from penstock.config import load_config

__all__ = ["add_options", "find"]

_MOST = (1 << 31) - 1


def add_options(parser: Any, pid_help: str = "process number of the server") -> None:
    """Adds the options to the parser of a command."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pid", type=int, metavar="N", help=pid_help)
    which.add_argument("--pid-file", metavar="FILE", help="pid file of the server (default: the setting)")
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: penstock.toml, if it exists)")


def find(options: argparse.Namespace) -> tuple[int, str | None] | None:
    """Returns the process number and the pid file that it is from; None, after a message, for wrong options.

    Raises:
        StartupError: the pid file names no running server.
    """
    if options.pid is not None:
        if 0 < options.pid <= _MOST:
            return options.pid, None
        _report(options, f"--pid: {options.pid} is not a process number")
        return None
    path = options.pid_file or load_config(file=options.config).pid_file
    if path is None:
        _report(options, "which server? give --pid, --pid-file, or the setting pid_file")
        return None
    return pid_file.process_of(path), path


def _report(options: argparse.Namespace, message: str) -> None:
    print(f"penstock {options.command}: error: {message}", file=sys.stderr)
