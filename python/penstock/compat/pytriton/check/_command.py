"""Self-check command: environment report and smoke tests. The default `check` runs all of them."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.compat.pytriton.check._environment import report
from penstock.compat.pytriton.check._smoke_test import run_in_process, run_script

__all__ = ["main"]

_CHECKS: dict[str, Callable[[Path, logging.Logger], None]] = {
    "env": report,
    "example-add-sub": run_in_process,
    "example-add-sub-script": run_script,
}
_COMMANDS = {"check": [*_CHECKS], "examples": ["example-add-sub", "example-add-sub-script"]} | {
    name: [name] for name in _CHECKS
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns 0 if all checks pass, 1 if one fails, 2 for invalid arguments."""
    options = _parser().parse_args(arguments)
    if options.workspace is not None and options.workspace.exists():
        sys.stderr.write(f"workspace {options.workspace}: already exists\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="pytriton_workspace_") as temporary:
        workspace = options.workspace or Path(temporary)
        workspace.mkdir(parents=True, exist_ok=True)
        failed = [name for name in _COMMANDS[options.command] if not _run(name, workspace)]
        if options.zip:
            archive = options.workspace.resolve() if options.workspace else Path.cwd() / workspace.name
            sys.stderr.write(
                f"wrote {shutil.make_archive(str(archive), 'zip', workspace)}; review it before you share it\n"
            )
    sys.stderr.write(f"failed: {', '.join(failed)}\n" if failed else "all checks passed\n")
    return 1 if failed else 0


def _run(name: str, workspace: Path) -> bool:
    """Runs one check, which logs to standard error and to a file of the workspace. Returns True if it passes."""
    logger = logging.getLogger(f"pytriton.check.{name}")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    formatter = logging.Formatter("%(asctime)s - %(levelname)s - %(name)s: %(message)s")
    handlers: list[logging.Handler] = [
        logging.StreamHandler(),
        logging.FileHandler(workspace / f"{name.replace('-', '_')}_log.txt"),
    ]
    for handler in handlers:
        handler.setFormatter(formatter)
        logger.addHandler(handler)
    try:
        _CHECKS[name](workspace, logger)
    except Exception:
        logger.exception("the check failed")
        return False
    else:
        return True
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pytriton", description="Check of PyTriton's interface on this machine.")
    parser.add_argument("command", nargs="?", choices=sorted(_COMMANDS), default="check", help="check to run")
    parser.add_argument(
        "-w", "--workspace", type=Path, help="new folder for logs and scripts; default: a temporary one"
    )
    parser.add_argument("--zip", action="store_true", help="also write the folder as a zip archive")
    return parser
