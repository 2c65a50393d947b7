"""Arguments of `ModelServer.start`: a list of models, or Ray Serve deployments by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.compat.kserve import dialect
from penstock.compat.kserve.errors import NoModelReady
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.model import BaseKServeModel

if TYPE_CHECKING:
    from penstock.compat.kserve._server.owner import Owner

__all__ = ["register"]


def register(server: Owner, models: Any) -> None:
    """Registers the models to serve.

    Raises:
        RuntimeError: `models` is neither a list of models nor a dict of deployments.
        NoModelReady: the server requires ready models, and none is ready.
    """
    if isinstance(models, list):
        _register_models(server, models)
    elif isinstance(models, dict):
        from penstock.compat.kserve import ray

        ray.deploy(server, models)
    else:
        raise RuntimeError(f"Unknown model collection type{'s' if dialect.is_old() else ''}")


def _register_models(server: Owner, models: list[Any]) -> None:
    for model in models:
        if not isinstance(model, BaseKServeModel):
            raise RuntimeError("Model type should be 'BaseKServeModel'")
    unready = [model for model in models if not model.ready]
    if server.require_ready and models and len(unready) == len(models):
        raise NoModelReady(models)
    for model in models:
        if server.require_ready and model in unready:
            continue
        server.register_model(model)
        if not dialect.is_old() and _is_to_be_started(model):
            model.start()
        if not model.ready:
            logger.warning("Model %s is not ready: its requests get status 503 until it is", model.name)


def _is_to_be_started(model: BaseKServeModel) -> bool:
    # The base's `start` would mark a model as ready that is not loaded.
    return model.ready or getattr(type(model), "start", None) is not BaseKServeModel.start
