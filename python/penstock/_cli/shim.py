"""`penstock shim`: checks the names, prepares the environment, and executes the program."""

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
"""Names and packages for the import hook of child processes: `NAME=PACKAGE`, comma separated."""

HOOK = Path(__file__).resolve().parents[1] / "_shim" / "hook"


def run(arguments: Sequence[str]) -> int:
    """Executes the program in this process. Returns an exit status only if it cannot.

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
        return _refuse(f"no name given; known names: {', '.join(INTEGRATIONS)}")
    if not command:
        return _refuse(f"give the command to run, for example: penstock shim {','.join(names)} -- python script.py")
    for name in names:
        echo(f"penstock shim: {name} is served by {INTEGRATIONS[name]} in this program")
    sys.stdout.flush()
    try:
        # By exec: signals and the exit status are those of the program.
        os.execvpe(command[0], command, environment(names, os.environ))  # noqa: S606 - the purpose of the command
    except FileNotFoundError:
        return _refuse(f"{command[0]}: there is no such command", NOT_FOUND)
    except OSError as error:
        return _refuse(f"{command[0]}: {error.strerror}", NOT_EXECUTABLE)


def environment(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which Penstock serves these names, for the program and its children."""
    packages = dict(pair.split("=", 1) for pair in environ.get(VARIABLE, "").split(",") if "=" in pair)
    packages.update({name: INTEGRATIONS[name] for name in names})
    paths = environ["PYTHONPATH"].split(os.pathsep) if environ.get("PYTHONPATH") else []
    return {
        **environ,
        VARIABLE: ",".join(f"{name}={package}" for name, package in packages.items()),
        "PYTHONPATH": os.pathsep.join([str(HOOK), *(path for path in paths if path != str(HOOK))]),
    }


def _read(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names and the command. The first `--` separates them; everything after it belongs to the program."""
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
