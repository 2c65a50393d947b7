"""What the command line's targets serve: files and modules that are imported, and what doors make of all else."""

from __future__ import annotations

import logging
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


_log = logging.getLogger("penstock.doors")


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads targets.

    Attributes:
        door: The door that all of them are for; None has each looked at.
        options: What the door is told.
    """

    door: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    _chosen: dict[str, str | None] = field(default_factory=dict, init=False, repr=False)
    """The door of each target that was asked about: one question, one answer, one warning."""
    _made: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False)
    """Which models were made of each target last. Not the models, which may be replaced and are to go then."""

    def door_of(self, target: str) -> str | None:
        """The door that a target is for; None for what is imported as it is.

        Raises:
            StartupError: no door knows it.
        """
        if target not in self._chosen:
            asked = self.door not in (None, asking.NATIVE) or asking.is_for_doors(target)
            self._chosen[target] = asking.chosen(Path(target), self.door) if asked else None
        return self._chosen[target]

    def load(self, target: str) -> list[Any]:
        """The models of a target.

        Raises:
            LoadError: its code cannot be imported.
            StartupError: it has no model, or no door knows it.
        """
        if (door := self.door_of(target)) is not None:
            models = list(doors.load(target, self.options, door=door))
            self._made[target] = [*map(id, models)]
            return models
        if self.options:
            name = next(iter(self.options))
            raise StartupError(f"--option {name}: {target} is served without a door, which takes no options")
        return _load.load(target)

    def settings(self, targets: Sequence[str]) -> dict[str, str]:
        """What the doors want the server to be like, where nobody says otherwise; of several, the first decides.

        Raises:
            StartupError: no door knows a target, or its settings cannot be read.
            ConfigError: a door names a setting that there is not, or its value is none.
        """
        found: dict[str, str] = {}
        for target in targets:
            if (door := self.door_of(target)) is not None:
                found = {**doors.settings(target, door=door), **found}
        return found

    def greetings(self, models: Sequence[Any], url: str) -> list[str]:
        """What doors tell whoever has started the server with these models: requests to try."""
        found: list[str] = []
        for target, made in self._made.items():
            door = self._chosen[target]
            greeting: Any = door not in (None, asking.NATIVE) and getattr(asking.module(door), "greeting", None)
            try:
                found += greeting([one for one in models if id(one) in made], url) if greeting else ()
            except Exception:  # the server runs, and goes on
                _log.exception("the door %s could not greet", door)
        return found


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
