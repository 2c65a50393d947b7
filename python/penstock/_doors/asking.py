"""Asks the doors about a path. They are imported for that, and not before."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock._doors import native as own
from penstock._doors.table import DOORS
from penstock.doors import Door, Finding
from penstock.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NATIVE", "check_exists", "chosen", "findings", "installed", "is_for_doors", "module", "native"]

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


def findings(path: Path) -> list[Finding]:
    """What all doors, and Penstock itself, say of a path, the surest first.

    Raises:
        StartupError: there is no such path.
    """
    check_exists(path)
    said = [own.detect(path), *(module(name).detect(path) for name in installed() if name != NATIVE)]
    # Of equals, the table's order: the same answer each time.
    return sorted((one for one in said if one is not None), key=lambda one: -one.confidence)


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
    found = findings(path)
    if not found:
        raise StartupError(_nobody(path))
    best = [one for one in found if one.confidence == found[0].confidence]
    if len(best) > 1:
        reasons = ", or ".join(f"{one.door} ({one.why})" for one in best)
        raise StartupError(f"{path} could be for {reasons}; choose with --door {best[0].door} for example")
    return found[0].door


def is_for_doors(target: str) -> bool:
    """Whether a target of the command line is to be shown to the doors, rather than imported.

    A folder is, and a file that is no Python. A Python file is where a door knows it and it has nothing of Penstock in
    it: then an import could only tell that it has no model. A package that is named as a module is imported, unless
    somebody knows it.
    """
    path = Path(target)
    if path.is_dir():
        is_module = os.sep not in target and (path / "__init__.py").is_file()
        return not is_module or bool(findings(path))
    if path.is_file() and path.suffix != ".py":
        return True
    return path.is_file() and not own.imports_penstock(path) and bool(findings(path))


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
