"""Folder kind of Penstock itself: `<version>/model.py` with one `@model` in it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock._loading import reimport, targets
from penstock._model.model import Model
from penstock._model.pipeline import Pipeline
from penstock._runtime.payload_kind import in_folder
from penstock._spec.definition import Definition, Handler
from penstock.errors import StartupError

__all__ = ["Native"]

_FILE = "model.py"


class Native:
    """`<version>/model.py`. The folders' names override the name and version in the code."""

    name = "penstock"

    def versions(self, folder: Path) -> Mapping[str, Path]:
        """The versions in a model's folder."""
        return {version.name: version for version in folder.iterdir() if (version / _FILE).is_file()}

    def define(self, folder: Path, name: str, version: str) -> Definition:
        """Imports the code of one version, again if it was imported before."""
        with targets.marked(_FILE):
            module = reimport.import_folder(str(folder), "model")
        try:
            model = _model_in(module, name).with_options(name=name, version=version)
            definition = model.definition(in_folder(str(folder), name, version))
        except BaseException:
            reimport.forget(module.__name__)
            raise
        factory = _TrackedFactory(definition.factory)
        # The server holds the factory until the last instance has closed.
        weakref.finalize(factory, reimport.forget, module.__name__).atexit = False
        return replace(definition, factory=factory)


class _TrackedFactory:
    """A factory whose deletion can be observed, unlike a bound method's."""

    def __init__(self, factory: Callable[[], Handler]) -> None:
        self._factory = factory

    def __call__(self) -> Handler:
        return self._factory()


def _model_in(module: ModuleType, name: str) -> Model[..., Any]:
    models = {id(value): value for value in vars(module).values() if isinstance(value, Model)}
    candidates = [*models.values()]
    if len(candidates) > 1:
        candidates = [model for model in candidates if model.name == name]
    if len(candidates) == 1:
        return candidates[0]
    if not models:
        if any(isinstance(value, Pipeline) for value in vars(module).values()):
            raise StartupError(f"{_FILE} has a Pipeline: give it to the server, beside the models that are its steps")
        raise StartupError(f"{_FILE} has no @model")
    names = ", ".join(sorted(model.name for model in models.values()))
    raise StartupError(f"{_FILE} has {len(models)} models ({names}), expected one, or one named {name!r}")
