"""`ModelOptions`: the options of the models that a server was given, for the description of its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock._model.settings import ModelSettings, described, settings_of

__all__ = ["ModelOptions"]


class ModelOptions:
    """Options with their origins, by name and version. Does not hold the models, which may be replaced.

    Args:
        models: Models, as `Server` takes them.
        integration_of: Returns the integration of a model; None for one of Python. None for models of Python only.
    """

    def __init__(self, models: Iterable[Any], integration_of: Callable[[Any], str | None] | None = None) -> None:
        self._integration_of = integration_of or (lambda _: None)
        self._known: dict[tuple[str, str], ModelSettings] = {}
        self.add(models)

    def add(self, models: Iterable[Any]) -> None:
        """Adds models, or replaces those of the same name and version."""
        for model in models:
            found = settings_of(model, self._integration_of(model))
            self._known[found.name, found.version] = found

    def replace(self, models: Iterable[Any]) -> None:
        """Replaces all models."""
        self._known = {}
        self.add(models)

    def remove(self, name: str, version: str | None) -> None:
        """Removes a model; without a version, all of its versions."""
        kept = {key: known for key, known in self._known.items() if key[0] != name or version not in (None, key[1])}
        self._known = kept

    def described(self) -> list[dict[str, Any]]:
        """The options, as JSON."""
        return described(self._known.values())
