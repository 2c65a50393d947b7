"""`ModelRepositoryExtension`: what clients may ask of a repository."""

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
        """All models with their state.

        Args:
            filter_ready: Whether only those that are ready are wanted.

        Returns:
            For each its `name`, its `state`, "Ready" or "NotReady", and an empty `reason`.
        """
        found = []
        for name in list(self._model_registry.get_models()):
            ready = await is_ready(self._model_registry, name)
            if ready or not filter_ready:
                found.append({"name": name, "state": "Ready" if ready else "NotReady", "reason": ""})
        return found

    async def load(self, model_name: str) -> None:
        """Has the repository load a model, or load it anew.

        Raises:
            ModelNotReady: it raised, or there is no such model that is ready afterwards.
        """
        load: Any = self._model_registry.load
        try:
            if inspect.iscoroutinefunction(load):
                await load(model_name)
            else:
                # It may take minutes.
                loaded = await asyncio.to_thread(load, model_name)
                if inspect.isawaitable(loaded):
                    await loaded
        except Exception as error:
            raise ModelNotReady(model_name, f"Error type: {type(error)} error msg: {error}") from error
        if not await is_ready(self._model_registry, model_name):
            raise ModelNotReady(model_name)

    async def unload(self, model_name: str) -> None:
        """Has the repository unload a model.

        Raises:
            ModelNotFound: there is none of that name.
        """
        unload: Any = self._model_registry.unload
        try:
            if inspect.iscoroutinefunction(unload):
                await unload(model_name)
            else:
                await asyncio.to_thread(unload, model_name)
        except KeyError:
            raise ModelNotFound(model_name) from None
