"""Readiness of a model, from its `healthy` and its repository: plain or async, overridden or not."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from penstock.compat.kserve.model import BaseKServeModel
from penstock.compat.kserve.model_repository import ModelRepository

__all__ = ["assigned_ready", "is_ready", "reports_by_assignment"]


def reports_by_assignment(repository: ModelRepository, model: Any) -> bool:
    """Returns whether assignments of `ready` report every change of readiness, so that polling is not needed."""
    if type(repository).is_model_ready is not ModelRepository.is_model_ready:
        return False
    return not isinstance(model, BaseKServeModel) or (
        inspect.getattr_static(model, "healthy", None) is BaseKServeModel.healthy
        and inspect.getattr_static(type(model), "ready", None) is BaseKServeModel.ready
    )


def assigned_ready(model: Any) -> bool:
    """Returns a model's `ready`; True for handles of models that run elsewhere."""
    return bool(model.ready) if isinstance(model, BaseKServeModel) else True


async def is_ready(repository: ModelRepository, name: str) -> bool:
    """Returns whether a repository has a ready model of that name; an overridden check runs on a thread."""
    model = repository.get_model(name)
    if model is not None and reports_by_assignment(repository, model):
        return assigned_ready(model)
    ready = await asyncio.to_thread(repository.is_model_ready, name)
    return bool(await ready if inspect.isawaitable(ready) else ready)
