"""What the command line's targets serve: files and modules that are imported, and what doors make of all else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import _load, doors
from penstock._doors import asking
from penstock.errors import StartupError

__all__ = ["Loader", "files_below", "read_options"]

_SKIPPED = {"__pycache__", "node_modules", "venv"}
_WATCHED = {".json", ".py", ".toml", ".txt", ".yaml", ".yml"}
_MOST_WATCHED = 10_000


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads targets.

    Attributes:
        door: The door that all of them are for; None has each looked at.
        options: What the door is told.
    """

    door: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def load(self, target: str) -> list[Any]:
        """The models of a target.

        Raises:
            LoadError: its code cannot be imported.
            StartupError: it has no model, or no door knows it.
        """
        if self.door not in (None, asking.NATIVE) or asking.is_for_doors(target):
            return list(doors.load(target, self.options, door=self.door))
        if self.options:
            name = next(iter(self.options))
            raise StartupError(f"--option {name}: {target} is served without a door, which takes no options")
        return _load.load(target)


def files_below(target: str) -> set[str]:
    """The files of a folder whose change may be one of what is served; of a target that is no folder, none."""
    folder = Path(target).resolve()
    if not folder.is_dir():
        return set()
    found: set[str] = set()
    waiting = [folder]
    while waiting and len(found) < _MOST_WATCHED:
        for entry in waiting.pop().iterdir():
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            if entry.is_dir() and not entry.is_symlink():
                waiting.append(entry)
            elif entry.suffix in _WATCHED:
                found.add(str(entry))
    return found


def read_options(given: Sequence[str]) -> dict[str, str]:
    """What `--option NAME=VALUE`, any number of times, says.

    Raises:
        StartupError: one is written otherwise.
    """
    found = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise StartupError(f"--option {text}: expected NAME=VALUE")
        found[name] = value
    return found
