"""`ModelRepository`: the models of a server, by name. Scripts subclass it to load and unload models on demand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from penstock.compat.kserve._model.awaitable_bool import AwaitableBool
from penstock.compat.kserve._model.background_loop import resolve
from penstock.compat.kserve._model.observable_dict import ObservableDict
from penstock.compat.kserve.model import BaseKServeModel

__all__ = ["MODEL_MOUNT_DIRS", "ModelRepository"]

MODEL_MOUNT_DIRS = "/mnt/models"
"""Where models are mounted."""


class ModelRepository:
    """The models of a server. What is added to a server's repository while it runs is served at once.

    Args:
        models_dir: A folder with a folder for each model.

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
        # Of a subclass that does not call this class's constructor there is none yet.
        found: ObservableDict = self.__dict__.setdefault("_models", ObservableDict())
        return found

    @models.setter
    def models(self, models: Mapping[str, Any]) -> None:
        watchers = self.models.watchers
        self.__dict__["_models"] = ObservableDict(models, watchers)
        self.models.notify()

    def watch(self, changed: Callable[[], None]) -> None:
        """Has something called whenever a model is added, replaced or taken out, on the thread that does it."""
        self.models.watchers.append(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        """Ends what `watch` began."""
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
        """The model of a name; None if there is none."""
        return self.models.get(name)

    def get_models(self) -> dict[str, Any]:
        """The models by name."""
        return self.models

    def is_model_ready(self, name: str) -> Any:
        """Whether there is such a model, and it is healthy: to be used as it is, or awaited, as its `healthy` is."""
        model = self.get_model(name)
        if model is None:
            return AwaitableBool(False)
        # A handle's model is ready: whoever deployed it has seen to that.
        answer = model.healthy() if isinstance(model, BaseKServeModel) else True
        return answer if hasattr(type(answer), "__await__") else AwaitableBool(bool(answer))

    def update(self, model: Any, name: str | None = None) -> None:
        """Adds a model, or puts it in the place of the one of its name.

        Args:
            model: The model.
            name: Another name for it than its own.
        """
        self.models[name or model.name] = model

    def update_handle(self, name: str, model_handle: Any) -> None:
        """Adds the handle of a model that runs elsewhere: `handle.remote(body, headers=...)` is its answer."""
        self.models[name] = model_handle

    def load(self, name: str) -> Any:
        """To be overridden, plain or async: what is done when a client wants a model loaded. It calls `update`."""

    def load_model(self, name: str) -> Any:
        """To be overridden: what `load_models` does for each folder."""

    def unload(self, name: str) -> None:
        """Takes a model out and stops it.

        Raises:
            KeyError: there is none of that name.
        """
        if name not in self.models:
            raise KeyError(f"model with name {name} does not exist")
        model = self.models.pop(name)
        # One of several names may go, and the model stay.
        if any(other is model for other in self.models.values()):
            return
        if isinstance(model, BaseKServeModel):
            # Both may be async.
            ends: list[Any] = [model.stop, *([model.stop_engine] if model.engine else [])]
            for end in ends:
                resolve(end())
