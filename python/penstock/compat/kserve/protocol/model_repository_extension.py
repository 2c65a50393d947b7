"""`ModelRepositoryExtension`: loading, unloading and listing for clients."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from penstock.compat.kserve._model.health import is_ready
from penstock.compat.kserve.errors import ModelNotFound, ModelNotReady
from penstock.compat.kserve.model_repository import ModelRepository

__all__ = ["ModelRepositoryExtension"]


class ModelRepositoryExtension:
    """Loads, unloads and lists the models of a repository.

    Args:
        model_registry: The repository.
    """

    def __init__(self, model_registry: ModelRepository) -> None:
        self._model_registry = model_registry

    async def index(self, filter_ready: bool | None = False) -> list[dict[str, str]]:
        """Returns all models with their state.

        Args:
            filter_ready: Whether to return ready models only.

        Returns:
            A dict per model: `name`, `state` ("Ready" or "NotReady"), and an empty `reason`.
        """
        index_rows = []
        for name in list(self._model_registry.get_models()):
            ready = await is_ready(self._model_registry, name)
            if ready or not filter_ready:
                index_rows.append({"name": name, "state": "Ready" if ready else "NotReady", "reason": ""})
        return index_rows

    async def load(self, model_name: str) -> None:
        """Loads or reloads a model.

        Raises:
            ModelNotReady: loading failed, or the model is not ready afterwards.
        """
        load: Any = self._model_registry.load
        try:
            if inspect.iscoroutinefunction(load):
                await load(model_name)
            else:
                # On a thread: loading may take minutes.
                loaded = await asyncio.to_thread(load, model_name)
                if inspect.isawaitable(loaded):
                    await loaded
        except Exception as error:
            raise ModelNotReady(model_name, f"Error type: {type(error)} error msg: {error}") from error
        if not await is_ready(self._model_registry, model_name):
            raise ModelNotReady(model_name)

    async def unload(self, model_name: str) -> None:
        """Unloads a model.

        Raises:
            ModelNotFound: the repository has no such model.
        """
        unload: Any = self._model_registry.unload
        try:
            if inspect.iscoroutinefunction(unload):
                await unload(model_name)
            else:
                await asyncio.to_thread(unload, model_name)
        except KeyError:
            raise ModelNotFound(model_name) from None
