"""The command: checks the names, prepares the environment, and becomes the program."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock._runtime.console import echo
from penstock._shim.names import INTEGRATIONS

__all__ = ["SUMMARY", "run"]

SUMMARY = "run a program that imports another product, with Penstock in its place"
USAGE = "usage: penstock shim NAME[,NAME] -- CMD [ARG ...]"
WRONG_USAGE, NOT_EXECUTABLE, NOT_FOUND = 2, 126, 127

VARIABLE = "PENSTOCK_SHIM"
"""Tells every Python below this one what stands in for what: `NAME=PACKAGE`, comma separated."""

HOOK = Path(__file__).resolve().parents[1] / "_shim" / "hook"


def run(arguments: Sequence[str]) -> int:
    """Becomes the program; gives an exit status only where it cannot.

    Args:
        arguments: The command line after `penstock shim`.
    """
    if arguments[:1] in (["-h"], ["--help"]):
        print(_help())
        return 0
    names, command = _read(arguments)
    unknown = [name for name in names if name not in INTEGRATIONS]
    if unknown:
        return _refuse(f"cannot stand in for {', '.join(map(repr, unknown))}; known names: {', '.join(INTEGRATIONS)}")
    if not names:
        return _refuse(f"what shall it stand in for? Known names: {', '.join(INTEGRATIONS)}")
    if not command:
        return _refuse(f"give the command to run, for example: penstock shim {','.join(names)} -- python script.py")
    for name in names:
        echo(f"penstock shim: {name} is {INTEGRATIONS[name]} in what runs now")
    sys.stdout.flush()
    try:
        # This process becomes the program: signals reach it, and its exit status is the answer.
        os.execvpe(command[0], command, environment(names, os.environ))  # noqa: S606 - that is what was asked for
    except FileNotFoundError:
        return _refuse(f"{command[0]}: there is no such command", NOT_FOUND)
    except OSError as error:
        return _refuse(f"{command[0]}: {error.strerror}", NOT_EXECUTABLE)


def environment(names: Sequence[str], around: Mapping[str, str]) -> dict[str, str]:
    """The environment in which these names are served by Penstock, in the program and all it starts."""
    said = dict(one.split("=", 1) for one in around.get(VARIABLE, "").split(",") if "=" in one)
    said.update({name: INTEGRATIONS[name] for name in names})
    paths = around["PYTHONPATH"].split(os.pathsep) if around.get("PYTHONPATH") else []
    return {
        **around,
        VARIABLE: ",".join(f"{name}={package}" for name, package in said.items()),
        "PYTHONPATH": os.pathsep.join([str(HOOK), *(path for path in paths if path != str(HOOK))]),
    }


def _read(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names and the command. The first `--` parts them; what follows is the program's own, another `--` too."""
    if not arguments or arguments[0] == "--":
        return [], list(arguments[1:])
    names = [name.strip() for name in arguments[0].split(",") if name.strip()]
    rest = list(arguments[1:])
    return names, rest[1:] if rest[:1] == ["--"] else rest


def _refuse(text: str, status: int = WRONG_USAGE) -> int:
    print(f"penstock shim: error: {text}", file=sys.stderr, flush=True)
    return status


def _help() -> str:
    integrations = "\n".join(f"  {name:<12} {package}" for name, package in INTEGRATIONS.items())
    return (
        f"{USAGE}\n\n"
        "Runs CMD; in every Python that it is or starts, `import NAME` gives Penstock's package of the same\n"
        "interface, installed or not. That Python must have Penstock, and must not run with -E, -I or -S.\n\n"
        f"names:\n{integrations}\n\n"
        "Exit status: that of CMD; 2 wrong usage, 126 CMD cannot be run, 127 there is no CMD."
    )
