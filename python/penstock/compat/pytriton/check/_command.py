"""The command: looks whether serving works here. `check` is all of it, and what is done where nothing is said."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.compat.pytriton.check._environment import report
from penstock.compat.pytriton.check._smoke_test import by_script, in_process

__all__ = ["main"]

_PARTS: dict[str, Callable[[Path, logging.Logger], None]] = {
    "env": report,
    "example-add-sub": in_process,
    "example-add-sub-script": by_script,
}
_COMMANDS = {"check": [*_PARTS], "examples": ["example-add-sub", "example-add-sub-script"]} | {
    name: [name] for name in _PARTS
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. 0 if all that it tried works, 1 if something does not, 2 for wrong usage."""
    given = _parser().parse_args(arguments)
    if given.workspace is not None and given.workspace.exists():
        sys.stderr.write(f"the workspace {given.workspace} exists already\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="pytriton_workspace_") as temporary:
        workspace = given.workspace or Path(temporary)
        workspace.mkdir(parents=True, exist_ok=True)
        failed = [name for name in _COMMANDS[given.command] if not _run(name, workspace)]
        if given.zip:
            archive = given.workspace.resolve() if given.workspace else Path.cwd() / workspace.name
            sys.stderr.write(
                f"wrote {shutil.make_archive(str(archive), 'zip', workspace)}; look at it before you share it\n"
            )
    sys.stderr.write(f"does not work: {', '.join(failed)}\n" if failed else "all is well\n")
    return 1 if failed else 0


def _run(name: str, workspace: Path) -> bool:
    """Whether one part works. What it says goes to standard error and to a file of the workspace."""
    logger = logging.getLogger(f"pytriton.check.{name}")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    form = logging.Formatter("%(asctime)s - %(levelname)s - %(name)s: %(message)s")
    handlers: list[logging.Handler] = [
        logging.StreamHandler(),
        logging.FileHandler(workspace / f"{name.replace('-', '_')}_log.txt"),
    ]
    for handler in handlers:
        handler.setFormatter(form)
        logger.addHandler(handler)
    try:
        _PARTS[name](workspace, logger)
    except Exception:
        logger.exception("it does not work")
        return False
    else:
        return True
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytriton", description="Looks whether PyTriton's interface, as Penstock serves it, works here."
    )
    parser.add_argument("command", nargs="?", choices=sorted(_COMMANDS), default="check", help="what to try")
    parser.add_argument(
        "-w", "--workspace", type=Path, help="a folder to make, for logs and scripts; else a temporary one"
    )
    parser.add_argument("--zip", action="store_true", help="write the folder as an archive too")
    return parser
