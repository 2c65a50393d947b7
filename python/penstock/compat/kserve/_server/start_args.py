"""What `ModelServer.start` is given: models in a list, or Ray Serve deployments by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.compat.kserve import dialect
from penstock.compat.kserve.errors import NoModelReady
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.model import BaseKServeModel

if TYPE_CHECKING:
    from penstock.compat.kserve.model_server import ModelServer

__all__ = ["take"]


def take(server: ModelServer, models: Any) -> None:
    """Registers what is to be served.

    Raises:
        RuntimeError: it is none of both.
        NoModelReady: the server wants ready ones, and there is none.
    """
    if isinstance(models, list):
        _take_models(server, models)
    elif isinstance(models, dict):
        from penstock.compat.kserve import ray

        ray.deploy(server, models)
    else:
        raise RuntimeError(f"Unknown model collection type{'s' if dialect.is_old() else ''}")


def _take_models(server: ModelServer, models: list[Any]) -> None:
    for model in models:
        if not isinstance(model, BaseKServeModel):
            raise RuntimeError("Model type should be 'BaseKServeModel'")
    waiting = [model for model in models if not model.ready]
    if server.require_ready and models and len(waiting) == len(models):
        raise NoModelReady(models)
    for model in models:
        if server.require_ready and model in waiting:
            continue
        server.register_model(model)
        if not dialect.is_old() and _wants_start(model):
            model.start()
        if not model.ready:
            logger.warning("Model %s is not ready: its requests are answered with 503 until it is", model.name)


def _wants_start(model: BaseKServeModel) -> bool:
    # Left as it is, `start` would say of a model that is not loaded that it is ready.
    return model.ready or getattr(type(model), "start", None) is not BaseKServeModel.start
