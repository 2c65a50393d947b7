"""Models that are bound to a server, by name and version."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.compat.pytriton._model.binding import Binding
from penstock.compat.pytriton.exceptions import PyTritonInvalidOperationError

__all__ = ["BoundModel", "BoundModels"]


class BoundModel:
    """A bound model and its load state."""

    def __init__(self, binding: Binding, is_server_alive: Callable[[], bool]) -> None:
        self.binding = binding
        self.loaded = False
        self._is_server_alive = is_server_alive

    @property
    def model_name(self) -> str:
        """Name on the wire."""
        return self.binding.name

    @property
    def model_version(self) -> int:
        """Version on the wire."""
        return self.binding.version

    def is_alive(self) -> bool:
        """True if the model is loaded and its server is alive."""
        return self.loaded and self._is_server_alive()


class BoundModels:
    """Models that are bound to a server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[tuple[str, int], BoundModel] = {}

    @property
    def models(self) -> Sequence[BoundModel]:
        """All models, in the order of binding."""
        with self._lock:
            return [*self._models.values()]

    def add(self, model: BoundModel) -> None:
        """Adds a model.

        Raises:
            PyTritonInvalidOperationError: the name and version are bound already.
        """
        with self._lock:
            if model.binding.key in self._models:
                raise PyTritonInvalidOperationError("Cannot add model with the same name twice.")
            self._models[model.binding.key] = model

    def remove(self, model: BoundModel) -> None:
        """Removes a model that could not be loaded."""
        with self._lock:
            del self._models[model.binding.key]
