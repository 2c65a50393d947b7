"""The `penstock` command: its parser, and the dispatch to verbs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from penstock._cli import (
    attach,
    bench,
    build,
    completion,
    config,
    detect,
    dev,
    infer,
    init,
    serve,
    shim,
    url,
)
from penstock._cli.exports import command as export
from penstock._cli.operations import audit, keys, reload, stacks, upgrade
from penstock._cli.parser import Parser
from penstock.errors import StartupError

__all__ = ["main"]

OK, USAGE = 0, 2

_OF_CLIENTS = {"infer": infer.run, "bench": bench.run}
"""Commands that need a running server."""

_COMMANDS = {
    "init": init.run,
    "serve": serve.run,
    "dev": dev.run,
    "reload": reload.run,
    "upgrade": upgrade.run,
    "stacks": stacks.run,
    "keys": keys.run,
    "audit": audit.run,
    "attach": attach.run,
    **dict.fromkeys(detect.COMMANDS, detect.run),
    **dict.fromkeys(config.COMMANDS, config.run),
    "build": build.run,
    "export": export.run,
}
"""Commands that report a `StartupError`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns its exit status.

    Args:
        arguments: The command line without the program's name; `sys.argv` by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["shim"]:
        # Before argparse: the arguments after the first `--` belong to another program.
        return shim.run(given[1:])
    given = config.joined(url.with_default(given, os.environ))
    try:
        options = _parser().parse_args(given)
    except SystemExit as stopped:
        # argparse has printed its help or error message.
        return OK if stopped.code in (None, 0) else USAGE
    if options.command is None:
        _parser().print_help()
        return USAGE
    if options.command == "completion":
        return completion.run(options, _parser())
    if options.command in _OF_CLIENTS:
        return _OF_CLIENTS[options.command](options)
    try:
        return _COMMANDS[options.command](options)
    except StartupError as error:
        return serve.report(error)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="penstock", description="Serve Python models and send them requests.", allow_abbrev=False)
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    init.add_parser(commands)
    serve.add_parser(commands)
    dev.add_parser(commands)
    reload.add_parser(commands)
    upgrade.add_parser(commands)
    stacks.add_parser(commands)
    keys.add_parser(commands)
    audit.add_parser(commands)
    attach.add_parser(commands)
    detect.add_parsers(commands)
    config.add_parsers(commands)
    build.add_parser(commands)
    export.add_parser(commands)
    infer.add_parser(commands)
    bench.add_parser(commands)
    completion.add_parser(commands)
    commands.add_parser("shim", help=shim.SUMMARY)
    return parser


class _Version(argparse.Action):
    """Prints the version. Imports the compiled extension only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import penstock

        print(f"penstock {penstock.__version__}")
        parser.exit()
