"""`Loader`: loads targets of the command line, by import or with an integration."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock._config.sources import Defaults
from penstock._loading import targets
from penstock.errors import StartupError
from penstock.integrations import _api, _detect

__all__ = ["Loader", "files_below", "read_options"]

_SKIPPED = {"__pycache__", "node_modules", "venv"}
_WATCHED = {".json", ".py", ".toml", ".txt", ".yaml", ".yml"}
_MAX_WATCHED = 10_000


_log = logging.getLogger("penstock.integrations")


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads targets. Python files and modules are imported, all others are loaded by integrations.

    Attributes:
        integration: The integration of all targets; None detects it for each.
        options: Options for the integration.
    """

    integration: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    _chosen: dict[str, str | None] = field(default_factory=dict, init=False, repr=False)
    """Integration of each detected target, so that detection runs, and warns, once."""
    _loaded: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False)
    """Ids of the models of each target's last load. Not the models, which must be released when they are replaced."""

    def integration_of(self, target: str) -> str | None:
        """The integration of a target; None for a target that is imported.

        Raises:
            StartupError: no integration recognises the target.
        """
        if target not in self._chosen:
            needs_integration = self.integration not in (None, _detect.NATIVE) or _detect.is_for_integrations(target)
            self._chosen[target] = _detect.chosen(Path(target), self.integration) if needs_integration else None
        return self._chosen[target]

    def integration_of_model(self, model: Any) -> str | None:
        """The integration of a model of the last load; None for one that was imported."""
        return next((self._chosen[target] for target, loaded in self._loaded.items() if id(model) in loaded), None)

    def load(self, target: str) -> list[Any]:
        """The models of a target.

        Raises:
            LoadError: its code cannot be imported.
            StartupError: it has no model, or no integration recognises it.
        """
        if (integration := self.integration_of(target)) is not None:
            models = list(_api.load(target, self.options, integration=integration))
            self._loaded[target] = [*map(id, models)]
            return models
        if self.options:
            name = next(iter(self.options))
            raise StartupError(f"--option {name}: {target} is served without an integration, which takes no options")
        return targets.load(target)

    def settings(self, targets: Sequence[str]) -> list[Defaults]:
        """Default settings of the targets' integrations, each with its origin, the first target's last.

        Later ones take precedence.

        Raises:
            StartupError: no integration recognises a target, or its settings cannot be read.
            ConfigError: an unknown setting, or an invalid value.
        """
        found = [
            Defaults(f"integration {integration}", _api.settings(target, integration=integration))
            for target in targets
            if (integration := self.integration_of(target)) is not None
        ]
        return found[::-1]

    def greetings(self, models: Sequence[Any], url: str) -> list[str]:
        """Example requests for a server with these models, from the integrations."""
        lines: list[str] = []
        for target, loaded in self._loaded.items():
            integration = self._chosen[target]
            greeting: Any = integration not in (None, _detect.NATIVE) and getattr(
                _detect.module(integration), "greeting", None
            )
            try:
                lines += greeting([model for model in models if id(model) in loaded], url) if greeting else ()
            except Exception:  # must not end a running server
                _log.exception("the integration %s has no example requests", integration)
        return lines


def files_below(target: str) -> set[str]:
    """Files of a folder to watch for changes; none for a target that is not a folder."""
    folder = Path(target).resolve()
    if not folder.is_dir():
        return set()
    files: set[str] = set()
    pending = [folder]
    while pending and len(files) < _MAX_WATCHED:
        for entry in pending.pop().iterdir():
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            if entry.is_dir() and not entry.is_symlink():
                pending.append(entry)
            elif entry.suffix in _WATCHED:
                files.add(str(entry))
    return files


def read_options(given: Sequence[str]) -> dict[str, str]:
    """The options of `--option NAME=VALUE` flags, by name.

    Raises:
        StartupError: a flag without a name or value.
    """
    options = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise StartupError(f"--option {text}: expected NAME=VALUE")
        options[name] = value
    return options
