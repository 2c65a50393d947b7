"""Asks the doors about a path. They are imported for that, and not before."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock._doors import native as own
from penstock._doors.table import DOORS
from penstock.doors import Door, Finding
from penstock.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "NATIVE",
    "Asked",
    "Problem",
    "ask",
    "check_exists",
    "choice",
    "chosen",
    "findings",
    "installed",
    "is_for_doors",
    "module",
    "native",
]

_log = logging.getLogger("penstock.doors")

NATIVE = own.NAME
"""What stands for no door in findings and in `--door`: a file with models of Penstock's own."""


def installed() -> list[str]:
    """The names of the doors that this Penstock has, the native one first."""
    return [NATIVE, *(name for name, package in DOORS.items() if importlib.util.find_spec(package) is not None)]


def module(name: str) -> Door:
    """A door's module.

    Raises:
        StartupError: there is no such door.
    """
    if name not in DOORS or name not in installed():
        raise StartupError(f"there is no door {name!r}; there are {', '.join(installed())}")
    return cast("Door", importlib.import_module(DOORS[name]))


@dataclass(frozen=True, slots=True)
class Problem:
    """A door could not look at a path. That is the door's affair: the others are asked all the same."""

    door: str
    error: str
    """What it raised."""

    def __str__(self) -> str:
        return f"the door {self.door} could not look at it: {self.error}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What all doors, and Penstock itself, say of a path: the surest first, and who could say nothing."""

    findings: list[Finding]
    problems: list[Problem]

    def tell_problems(self, path: Path) -> None:
        """Logs them, for whoever is served by another door."""
        for one in self.problems:
            _log.warning("penstock: %s: %s", path, one)


def ask(path: Path) -> Asked:
    """Asks all doors about a path.

    Raises:
        StartupError: there is no such path.
    """
    check_exists(path)
    asked = Asked([], [])
    for name in installed():
        try:
            found = own.detect(path) if name == NATIVE else module(name).detect(path)
        except Exception as error:
            asked.problems.append(Problem(name, _said(error)))
            continue
        if found is not None:
            asked.findings.append(found)
    # Of equals, the table's order: the same answer each time.
    asked.findings.sort(key=lambda one: -one.confidence)
    return asked


def findings(path: Path) -> list[Finding]:
    """What is said of a path, the surest first. Doors that could not look at it are logged.

    Raises:
        StartupError: there is no such path.
    """
    asked = ask(path)
    asked.tell_problems(path)
    return asked.findings


def chosen(path: Path, door: str | None = None) -> str:
    """The door for a path: the one that was named, or else the one that is surest.

    Raises:
        StartupError: there is none, two are equally sure, or there is no such path or door.
    """
    if door is not None:
        check_exists(path)
        if door != NATIVE:
            module(door)
        return door
    asked = ask(path)
    found = choice(path, asked)
    asked.tell_problems(path)
    return found


def choice(path: Path, asked: Asked) -> str:
    """The door that is surest of those that were asked.

    Raises:
        StartupError: there is none, or two are equally sure.
    """
    if not asked.findings:
        raise StartupError("; ".join([_nobody(path), *map(str, asked.problems)]))
    best = [one for one in asked.findings if one.confidence == asked.findings[0].confidence]
    if len(best) > 1:
        reasons = ", or ".join(f"{one.door} ({one.why})" for one in best)
        raise StartupError(f"{path} could be for {reasons}; choose with --door {best[0].door} for example")
    return best[0].door


def is_for_doors(target: str) -> bool:
    """Whether a target of the command line is to be shown to the doors, rather than imported.

    A folder is, and a file that is no Python. A Python file is where a door knows it and it has nothing of Penstock in
    it: then an import could only tell that it has no model. A package that is named as a module is imported, unless
    somebody knows it.
    """
    path = Path(target)
    if path.is_dir():
        is_module = os.sep not in target and (path / "__init__.py").is_file()
        return not is_module or _is_known(path)
    if path.is_file() and path.suffix != ".py":
        return True
    return path.is_file() and not own.imports_penstock(path) and _is_known(path)


def native(path: Path) -> Sequence[Any]:
    """The models of a file, or of a folder's file, with models of Penstock's own."""
    from penstock import _load

    return _load.load(str(own.file_of(path)))


def check_exists(path: Path) -> None:
    """Refuses a path that is not there.

    Raises:
        StartupError: it is not.
    """
    if not path.exists():
        raise StartupError(f"there is no file or folder {path}")


def _is_known(path: Path) -> bool:
    asked = ask(path)
    if not asked.findings:
        # It will be imported, and nobody asks again.
        asked.tell_problems(path)
    return bool(asked.findings)


def _said(error: Exception) -> str:
    # A refusal is written to be read; of anything else, its kind says more than its text.
    return str(error) if isinstance(error, StartupError) else f"{type(error).__name__}: {error}"


def _nobody(path: Path) -> str:
    if own.is_repository(path):
        return f"{path} is a model repository: give it as --repository {path}"
    doors = ", ".join(name for name in installed() if name != NATIVE) or "none is installed"
    if path.is_dir():
        return (
            f"{path} is nothing that can be served: it has no app.py with models of Penstock's, and no door knows it "
            f"(doors: {doors}); name the file in it, or a door with --door"
        )
    return f"no door knows {path} (doors: {doors}); name one with --door, or give a file whose name ends in .py"
