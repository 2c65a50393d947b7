"""Whether a model is ready, as its `healthy` and its repository say: plain or async, overridden or not."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from penstock.compat.kserve.model import BaseKServeModel
from penstock.compat.kserve.model_repository import ModelRepository

__all__ = ["is_ready", "says", "tells_by_itself"]


def tells_by_itself(repository: ModelRepository, model: Any) -> bool:
    """Whether assignments of `ready` say all that there is to say of a model, so that nobody need ask."""
    if type(repository).is_model_ready is not ModelRepository.is_model_ready:
        return False
    return not isinstance(model, BaseKServeModel) or (
        inspect.getattr_static(model, "healthy", None) is BaseKServeModel.healthy
        and inspect.getattr_static(type(model), "ready", None) is BaseKServeModel.ready
    )


def says(model: Any) -> bool:
    """Whether a model says that it is ready. Handles of models that run elsewhere always are."""
    return bool(model.ready) if isinstance(model, BaseKServeModel) else True


async def is_ready(repository: ModelRepository, name: str) -> bool:
    """Whether a repository has a model that is ready. One that has to be asked may take its time."""
    model = repository.get_model(name)
    if model is not None and tells_by_itself(repository, model):
        return says(model)
    answer = await asyncio.to_thread(repository.is_model_ready, name)
    return bool(await answer if inspect.isawaitable(answer) else answer)
