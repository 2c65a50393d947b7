"""Targets of the command line: Python files and modules are imported, integrations load all else."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock._loading import targets
from penstock.errors import StartupError
from penstock.integrations import _api, _detect

__all__ = ["Loader", "files_below", "read_options"]

_SKIPPED = {"__pycache__", "node_modules", "venv"}
_WATCHED = {".json", ".py", ".toml", ".txt", ".yaml", ".yml"}
_MOST_WATCHED = 10_000


_log = logging.getLogger("penstock.integrations")


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads targets.

    Attributes:
        integration: The integration that all of them are for; None has each looked at.
        options: What the integration is told.
    """

    integration: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    _chosen: dict[str, str | None] = field(default_factory=dict, init=False, repr=False)
    """The integration of each target that was asked about: one question, one answer, one warning."""
    _made: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False)
    """Which models were made of each target last. Not the models, which may be replaced and are to go then."""

    def integration_of(self, target: str) -> str | None:
        """The integration that a target is for; None for what is imported as it is.

        Raises:
            StartupError: no integration knows it.
        """
        if target not in self._chosen:
            asked = self.integration not in (None, _detect.NATIVE) or _detect.is_for_integrations(target)
            self._chosen[target] = _detect.chosen(Path(target), self.integration) if asked else None
        return self._chosen[target]

    def load(self, target: str) -> list[Any]:
        """The models of a target.

        Raises:
            LoadError: its code cannot be imported.
            StartupError: it has no model, or no integration knows it.
        """
        if (integration := self.integration_of(target)) is not None:
            models = list(_api.load(target, self.options, integration=integration))
            self._made[target] = [*map(id, models)]
            return models
        if self.options:
            name = next(iter(self.options))
            raise StartupError(f"--option {name}: {target} is served without an integration, which takes no options")
        return targets.load(target)

    def settings(self, targets: Sequence[str]) -> dict[str, str]:
        """What the integrations want the server to be like, where nobody says otherwise; of several, the first decides.

        Raises:
            StartupError: no integration knows a target, or its settings cannot be read.
            ConfigError: an integration names a setting that there is not, or its value is none.
        """
        found: dict[str, str] = {}
        for target in targets:
            if (integration := self.integration_of(target)) is not None:
                found = {**_api.settings(target, integration=integration), **found}
        return found

    def greetings(self, models: Sequence[Any], url: str) -> list[str]:
        """What integrations tell whoever has started the server with these models: requests to try."""
        found: list[str] = []
        for target, made in self._made.items():
            integration = self._chosen[target]
            greeting: Any = integration not in (None, _detect.NATIVE) and getattr(
                _detect.module(integration), "greeting", None
            )
            try:
                found += greeting([one for one in models if id(one) in made], url) if greeting else ()
            except Exception:  # the server runs, and goes on
                _log.exception("the integration %s could not greet", integration)
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
