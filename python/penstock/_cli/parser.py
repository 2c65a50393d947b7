"""`Parser`: an argparse parser whose errors name the nearest command or flag, or what to write in its place."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from penstock._cli import url
from penstock._spec.suggestions import nearest

__all__ = ["Parser", "flags_of"]

_WORKERS = (
    "calls that run at once are an option of the model: @model(instances=N), or instances=Processes(N); "
    "threads of the network are --io-threads N"
)


def _address(flag: str) -> Any:
    return lambda value: f"the address is one flag: {flag} {value or 'HOST:PORT'}"


_IN_PLACE: dict[str, Any] = {
    "--host": lambda value: f"the address is one flag: --http {value or 'HOST'}:8000",
    "--bind": _address("--http"),
    "--port": lambda value: f"the address is one flag: --http {value or 'PORT'}, or --http HOST:PORT",
    "-p": lambda value: f"the address is one flag: --http {value or 'PORT'}, or --http HOST:PORT",
    "--http-port": _address("--http"),
    "--grpc-port": _address("--grpc"),
    "--metrics-port": lambda value: f"write --listeners metrics={value or 'HOST:PORT'}",
    "--workers": lambda value: _WORKERS,
    "--processes": lambda value: _WORKERS,
    "--instances": lambda value: _WORKERS,
    "--threads": lambda value: _WORKERS,
    "--max-batch-size": lambda value: f"write @model(batching=Batching(max_size={value or 'N'}))",
    "--model-repository": lambda value: f"write --repository {value or 'FOLDER'}",
    "--ssl-certfile": lambda value: f"write --tls-certificate {value or 'FILE'}",
    "--ssl-keyfile": lambda value: f"write --tls-key {value or 'FILE'}",
    "--verbose": lambda value: "write --log-level info, and --access-log text for a line for each request",
}
"""Hints for flags of other servers, by flag; the argument is the flag's value, if it has one."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors have hints. Parsers of its commands are of this class too."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in argparse, but unknown flags are refused here, by the parser of their command.

        argparse leaves them to the parser of the program, which does not know the command's flags.
        """
        given = list(sys.argv[1:] if args is None else args)
        parsed, unknown = super().parse_known_args(given, namespace)
        has_inputs = isinstance(getattr(parsed, "inputs", None), list)
        if has_inputs and not any(one.startswith("-") for one in unknown):
            # Inputs behind options: argparse had filled the list before.
            parsed.inputs, unknown = [*parsed.inputs, *unknown], []
        if unknown:
            self._refuse(unknown, given)
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Prints the usage and a message with its hint, and exits with the status 2."""
        if match := re.search(r"invalid choice: '(.*)' \(", message):
            choices = next((action.choices for action in self._actions if action.choices), ())
            near = nearest(match[1], list(choices))
            message += f"; did you mean {near!r}?" if near else ""
        if "arguments are required" in message and self.prog.split()[-1] in url.COMMANDS:
            message += f"; the URL may be in the variable {url.VARIABLE}"
        super().error(message)

    def _refuse(self, unknown: Sequence[str], given: Sequence[str]) -> NoReturn:
        message = f"unrecognized arguments: {' '.join(unknown)}"
        flag, _, value = next((one for one in unknown if one.startswith("-")), "").partition("=")
        # From the whole command line: the flag's value may have been taken as a path.
        following = given[given.index(flag) + 1 :][:1] if flag in given else []
        if following and not following[0].startswith("-"):
            value = following[0]
        known = flags_of(self)
        if self.prog.endswith((" serve", " config", " config check")) and flag in _IN_PLACE:
            message += f"; {_IN_PLACE[flag](value)}"
        elif flag and (near := nearest(flag, known)) is not None:
            message += f"; did you mean {near}?"
        super().error(message)


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """The long flags of a parser."""
    return [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]
