"""`ModelRepository`: a server's models by name. Scripts subclass it to load and unload models on demand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from penstock.compat.kserve import dialect
from penstock.compat.kserve._model.awaitable_bool import AwaitableBool
from penstock.compat.kserve._model.background_loop import resolve
from penstock.compat.kserve._model.observable_dict import ObservableDict
from penstock.compat.kserve.model import BaseKServeModel

__all__ = ["MODEL_MOUNT_DIRS", "ModelRepository"]

MODEL_MOUNT_DIRS = "/mnt/models"
"""The default model folder."""


class ModelRepository:
    """The models of a server. A model that is added while the server runs is served at once.

    Args:
        models_dir: A folder with a subfolder per model.

    Attributes:
        models: The models by name.
        models_dir: The folder.

    Example:
        >>> class Repository(ModelRepository):
        ...     def load(self, name):
        ...         model = MyModel(name, os.path.join(self.models_dir, name))
        ...         if model.load():
        ...             self.update(model)
        ...         return model.ready
        >>> ModelServer(registered_models=Repository("/models")).start([])
    """

    def __init__(self, models_dir: str = MODEL_MOUNT_DIRS) -> None:
        self.models_dir = models_dir

    @property
    def models(self) -> ObservableDict:
        """The models by name."""
        # Created here: a subclass need not call this class's constructor.
        found: ObservableDict = self.__dict__.setdefault("_models", ObservableDict())
        return found

    @models.setter
    def models(self, models: Mapping[str, Any]) -> None:
        watchers = self.models.watchers
        self.__dict__["_models"] = ObservableDict(models, watchers)
        self.models.notify()

    def watch(self, changed: Callable[[], None]) -> None:
        """Calls `changed` when a model is added, replaced or removed, on the changing thread."""
        self.models.watchers.append(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        """Ends `watch`."""
        self.models.watchers.remove(changed)

    def load_models(self) -> None:
        """Calls `load_model` with the name of each folder in `models_dir`."""
        for name in os.listdir(self.models_dir):
            if os.path.isdir(os.path.join(self.models_dir, name)):
                self.load_model(name)

    def set_models_dir(self, models_dir: str) -> None:
        """Sets `models_dir`."""
        self.models_dir = models_dir

    def get_model(self, name: str) -> Any:
        """Returns the model of a name, or None."""
        return self.models.get(name)

    def get_models(self) -> dict[str, Any]:
        """The models by name."""
        return self.models

    def is_model_ready(self, name: str) -> Any:
        """Returns whether the model exists and is healthy, as `healthy` does: it may be awaited or not.

        In the dialect of 0.13 it is a `bool`, unless `healthy` is overridden by an async method.
        """
        model = self.get_model(name)
        # The model of a handle is ready: it was deployed before.
        ready = model is not None and (model.healthy() if isinstance(model, BaseKServeModel) else True)
        if hasattr(type(ready), "__await__") and not isinstance(ready, AwaitableBool):
            return ready
        return bool(ready) if dialect.is_old() else AwaitableBool(bool(ready))

    def update(self, model: Any, name: str | None = None) -> None:
        """Adds or replaces a model.

        Args:
            model: The model.
            name: A name other than the model's own.
        """
        self.models[name or model.name] = model

    def update_handle(self, name: str, model_handle: Any) -> None:
        """Adds the handle of a model that runs elsewhere, with `handle.remote(body, headers=...)`."""
        self.models[name] = model_handle

    def load(self, name: str) -> Any:
        """Loads a model for a client and calls `update`. To be overridden, plain or async."""

    def load_model(self, name: str) -> Any:
        """Loads a model for `load_models`. To be overridden."""

    def unload(self, name: str) -> None:
        """Removes and stops a model.

        Raises:
            KeyError: the repository has no such model.
        """
        if name not in self.models:
            raise KeyError(f"model with name {name} does not exist")
        model = self.models.pop(name)
        # A model with another name left is not stopped.
        if any(other is model for other in self.models.values()):
            return
        if isinstance(model, BaseKServeModel):
            # Each may be plain or async.
            ends: list[Any] = [model.stop, *([model.stop_engine] if model.engine else [])]
            for end in ends:
                resolve(end())
