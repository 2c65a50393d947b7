"""`penstock detect`, `penstock check` and `penstock init`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock._cli.check import check
from penstock.errors import StartupError
from penstock.integrations import _detect, _scaffold

__all__ = ["COMMANDS", "add_parsers", "run"]

COMMANDS = ("detect", "check", "init")


def add_parsers(commands: Any) -> None:
    """Adds the commands."""
    detect = commands.add_parser(
        "detect",
        allow_abbrev=False,
        help="say what a folder or file is, and why",
        description="Says which integration knows a folder or file, and by what. Nothing of it is run.",
        epilog="Exit status: 0 one is surest, 1 none is, or two are.",
    )
    detect.add_argument("path", metavar="PATH", help="a folder or file")
    detect.add_argument("--json", action="store_true", help="as JSON: all that know it, the surest first")
    check = commands.add_parser(
        "check",
        allow_abbrev=False,
        help="look for what is wrong with a folder or file, without serving it",
        description="Looks for what would keep a folder or file from being served or made an image. Its code is "
        "imported.",
        epilog="Exit status: 0 nothing is wrong, 1 something is.",
    )
    check.add_argument("path", metavar="PATH[:object]", help="a folder or file that penstock serve takes")
    check.add_argument("--integration", metavar="NAME", help="integration that serves the path (default: detected)")
    init = commands.add_parser(
        "init",
        allow_abbrev=False,
        help="write a first example to start from",
        description="Writes a first example into a new folder, one that can be served as it is.",
    )
    init.add_argument("folder", metavar="FOLDER", help="a folder that is empty, or not there yet")
    init.add_argument(
        "--integration", metavar="NAME", default=_detect.NATIVE, help="integration of the example (default: penstock)"
    )


def run(options: argparse.Namespace) -> int:
    """Carries one out, and gives the exit status.

    Raises:
        StartupError: it cannot be; the message says why.
    """
    if options.command == "detect":
        return _print_detected(Path(options.path), as_json=options.json)
    if options.command == "check":
        return _print_problems(options.path, options.integration)
    return _init(Path(options.folder), options.integration)


def _print_detected(path: Path, *, as_json: bool) -> int:
    asked = _detect.ask(path)
    try:
        integration, failure = _detect.choice(path, asked), None
    except StartupError as error:
        integration, failure = None, error
    found = asked.findings
    if as_json:
        said = {
            "integration": integration,
            "findings": [asdict(one) for one in found],
            "problems": [asdict(one) for one in asked.problems],
        }
        print(json.dumps({"path": str(path), **said}, indent=2))
        return 0 if integration else 1
    if failure is not None:
        raise failure
    print(f"{path} is for the integration {integration}: {found[0].why} (confidence {found[0].confidence})")
    for one in found[1:]:
        print(f"  it could be for {one.integration}: {one.why} (confidence {one.confidence})")
    for problem in asked.problems:
        print(f"  {problem}")
    return 0


def _print_problems(target: str, integration: str | None) -> int:
    found, problems = check(target, integration)
    for text in problems:
        print(f"{target}: {text}")
    if not problems:
        print(f"{target}: nothing is wrong with it (integration {found})")
    return 1 if problems else 0


def _init(folder: Path, integration: str) -> int:
    for path in _scaffold.write(folder, integration):
        print(f"wrote {path}")
    print(f"serve it with: penstock serve {folder}\nlook at it with: penstock check {folder}")
    return 0
