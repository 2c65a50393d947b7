"""The models that are bound to a server, by name and version."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.compat.pytriton._model.binding import Binding
from penstock.compat.pytriton.exceptions import PyTritonInvalidOperationError

__all__ = ["BoundModel", "Models"]


class BoundModel:
    """A bound model, and whether it is served."""

    def __init__(self, binding: Binding, is_served: Callable[[], bool]) -> None:
        self.binding = binding
        self.loaded = False
        self._is_served = is_served

    @property
    def model_name(self) -> str:
        """Its name."""
        return self.binding.name

    @property
    def model_version(self) -> int:
        """Its version."""
        return self.binding.version

    def is_alive(self) -> bool:
        """Whether it is served."""
        return self.loaded and self._is_served()


class Models:
    """The models that are bound to a server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[tuple[str, int], BoundModel] = {}

    @property
    def models(self) -> Sequence[BoundModel]:
        """All of them, in the order in which they were bound."""
        with self._lock:
            return [*self._models.values()]

    def add(self, model: BoundModel) -> None:
        """Takes one more.

        Raises:
            PyTritonInvalidOperationError: one of its name and version is bound.
        """
        with self._lock:
            if model.binding.key in self._models:
                raise PyTritonInvalidOperationError("Cannot add model with the same name twice.")
            self._models[model.binding.key] = model

    def drop(self, model: BoundModel) -> None:
        """Forgets one that could not be loaded."""
        with self._lock:
            del self._models[model.binding.key]
