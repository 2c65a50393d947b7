"""`penstock detect` and `penstock check`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock._cli.check import check
from penstock.errors import StartupError
from penstock.integrations import _detect

__all__ = ["COMMANDS", "add_parsers", "run"]

COMMANDS = ("detect", "check")


def add_parsers(commands: Any) -> None:
    """Adds the commands to the parser."""
    detect = commands.add_parser(
        "detect",
        allow_abbrev=False,
        help="print the integration of a folder or file, and the reason",
        description="Prints which integration recognises a folder or file, and by what. No code of it is run.",
        epilog="Exit status: 0 detected, 1 unknown or ambiguous.",
    )
    detect.add_argument("path", metavar="PATH", help="folder or file")
    detect.add_argument("--json", action="store_true", help="print all matches as JSON, best first")
    check = commands.add_parser(
        "check",
        allow_abbrev=False,
        help="check a folder or file without serving it",
        description="Checks whether a folder or file can be served and built as an image: its code "
        "is imported, and its image must have the packages that it imports and the files that it reads.",
        epilog="Exit status: 0 no problems, 1 problems.",
    )
    check.add_argument("path", metavar="PATH[:object]", help="folder or file, as for serve")
    check.add_argument("--integration", metavar="NAME", help="integration that serves the path (default: detected)")
    check.add_argument(
        "--build", action="store_true", help="build the models too, as at the start of a server, without serving them"
    )


def run(options: argparse.Namespace) -> int:
    """Runs one of the commands. Returns the exit status.

    Raises:
        StartupError: the command fails; the message has the reason.
    """
    if options.command == "detect":
        return _print_detected(Path(options.path), as_json=options.json)
    return _print_problems(options.path, options.integration, builds=options.build)


def _print_detected(path: Path, *, as_json: bool) -> int:
    detection = _detect.detect(path)
    try:
        integration, failure = _detect.choice(path, detection), None
    except StartupError as error:
        integration, failure = None, error
    findings = detection.findings
    if as_json:
        result = {
            "path": str(path),
            "integration": integration,
            "findings": [asdict(finding) for finding in findings],
            "problems": [asdict(problem) for problem in detection.problems],
        }
        print(json.dumps(result, indent=2))
        return 0 if integration else 1
    if failure is not None:
        raise failure
    print(f"{path} is for the integration {integration}: {findings[0].why} (confidence {findings[0].confidence})")
    for finding in findings[1:]:
        print(f"  it could be for {finding.integration}: {finding.why} (confidence {finding.confidence})")
    for problem in detection.problems:
        print(f"  {problem}")
    return 0


def _print_problems(target: str, integration: str | None, *, builds: bool) -> int:
    detected, problems = check(target, integration, builds=builds)
    for text in problems:
        print(f"{target}: {text}")
    if not problems:
        print(f"{target}: no problems (integration {detected})")
    return 1 if problems else 0
