"""`penstock audit`: checks audit logs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "audit",
        allow_abbrev=False,
        help="check an audit log",
        description="Checks the audit log of the setting audit_log.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    verify = verbs.add_parser(
        "verify",
        allow_abbrev=False,
        help="check that no line was changed, removed or added",
        description="Checks that each line has the hash of the line before. Exit status 0: the chain is whole; 1: it "
        "is broken, and the message names the line. Compare the last hash with one that was kept elsewhere: lines "
        "that are missing at the end leave no trace.",
    )
    verify.add_argument(
        "files", metavar="FILE", nargs="+", help="file of the log; several parts of one log in their order"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status."""
    from penstock import _core

    try:
        lines, seq, digest = _core.verify_audit_log(options.files)
    except ValueError as error:
        print(f"penstock audit verify: error: {error}", file=sys.stderr)
        return 1
    print(f"{lines} lines, no line was changed or removed; the last one is seq {seq}, hash {digest}")
    return 0
