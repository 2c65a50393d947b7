"""Penstock's own kind of folder: `<version>/model.py`, with one `@model` in it."""

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
    """`<version>/model.py`. The folders' names are the model's name and version, whatever the code says."""

    name = "penstock"

    def versions(self, folder: Path) -> Mapping[str, Path]:
        """The versions in a model's folder."""
        return {one.name: one for one in folder.iterdir() if (one / _FILE).is_file()}

    def define(self, folder: Path, name: str, version: str) -> Definition:
        """Imports the code of one version anew."""
        with targets.marked(_FILE):
            module = reimport.import_folder(str(folder), "model")
        try:
            model = _model_in(module, name).with_options(name=name, version=version)
            definition = model.definition(in_folder(str(folder), name, version))
        except BaseException:
            reimport.forget(module.__name__)
            raise
        factory = _Held(definition.factory)
        # The server holds it until the last instance has closed.
        weakref.finalize(factory, reimport.forget, module.__name__).atexit = False
        return replace(definition, factory=factory)


class _Held:
    """A factory whose end can be seen."""

    def __init__(self, factory: Callable[[], Handler]) -> None:
        self._factory = factory

    def __call__(self) -> Handler:
        return self._factory()


def _model_in(module: ModuleType, name: str) -> Model[..., Any]:
    models = {id(value): value for value in vars(module).values() if isinstance(value, Model)}
    found = [*models.values()]
    if len(found) > 1:
        found = [one for one in found if one.name == name]
    if len(found) == 1:
        return found[0]
    if not models:
        if any(isinstance(value, Pipeline) for value in vars(module).values()):
            raise StartupError(f"{_FILE} has a Pipeline: give it to the server, beside the models that are its steps")
        raise StartupError(f"{_FILE} has no @model")
    names = ", ".join(sorted(one.name for one in models.values()))
    raise StartupError(f"{_FILE} has {len(models)} models ({names}), expected one, or one named {name!r}")
