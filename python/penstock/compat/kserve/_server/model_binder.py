"""`ModelBinder`: creates the Penstock models of a server's models: their instances, batching and shared routes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import Batching, Processes, Request, Response
from penstock import Model as Native
from penstock.compat.kserve._model.draining import InstanceCount
from penstock.compat.kserve._model.handler_kind import is_async_model
from penstock.compat.kserve._model.health import assigned_ready
from penstock.compat.kserve._model.model_transfer import PackedModel
from penstock.compat.kserve._request.bind import BindOptions, bind
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.model import BaseKServeModel

if TYPE_CHECKING:
    from penstock.compat.kserve._server.event_loops import EventLoops, LoopSetup
    from penstock.compat.kserve._server.owner import Owner

__all__ = ["ModelBinder"]


class ModelBinder:
    """Creates the Penstock models of a server's models.

    Args:
        owner: The `ModelServer` whose arguments apply.
        loops: Sets up the event loops of async handlers.
        environment: Extra environment variables of workers.
    """

    def __init__(
        self,
        owner: Owner,
        loops: EventLoops,
        environment: Mapping[str, str],
    ) -> None:
        self._owner, self._loops, self._environment = owner, loops, environment
        self._instance_counts: dict[str, InstanceCount | None] = {}
        self._openai: dict[str, Any] = {}
        self._openai_loop: LoopSetup | None = None

    def bind(self, model: Any, name: str) -> Native[..., Any]:
        """Returns the Penstock model that serves a model under a name.

        Raises:
            SignatureError: the model cannot be served, or not be sent to workers.
        """
        owner = self._owner
        if not isinstance(model, BaseKServeModel):
            from penstock.compat.kserve import ray

            model = ray.of_handle(name, model)
        if not callable(model):
            return Native(_refuse, name=name, description=type(model).__doc__ or "", max_concurrency=1)
        # A model that is not ready refuses requests in this process; its workers get the state it has once it is ready.
        in_workers = self._goes_to_workers(model) and model.ready
        instance_count = None if in_workers else InstanceCount()
        self._instance_counts[name] = instance_count
        batching = None
        if owner.max_batch_size is not None:
            batching = Batching(max_size=owner.max_batch_size, max_delay=owner.max_batch_latency / 1000)
        if not is_async_model(model):
            self._loops.run_in_background(model, name)
        options = BindOptions(
            name=name,
            instances=Processes(owner.workers, env=self._environment) if in_workers else owner.threads,
            batching=batching,
            latency_logging=owner.enable_latency_logging,
            loop_hooks=self._loops.setup_for({name: model}) if is_async_model(model) else None,
            instance_count=instance_count,
            packed=PackedModel.packed(model, name, owner._log_config) if in_workers else None,
        )
        return bind(model, options)

    def wait_until_drained(self, name: str) -> None:
        """Waits until a removed model has completed its requests, at most for the server's grace period."""
        instance_count = self._instance_counts.pop(name, None)
        if instance_count is not None and not instance_count.wait(self._owner.grace_period):
            logger.warning("Model %s is unloaded, and still computes", name)

    def needs_rebinding(self, model: Any, ready_when_bound: bool) -> bool:
        """Returns whether a model became ready after it was bound, and has to be sent to workers now."""
        return self._goes_to_workers(model) and not ready_when_bound and assigned_ready(model)

    def _goes_to_workers(self, model: Any) -> bool:
        # Ray's models compute elsewhere, and their handles belong to this process.
        return self._owner.workers > 1 and not getattr(model, "computes_elsewhere", False)

    def shared_models(self, models: dict[str, Any]) -> Sequence[Native[..., Any]] | None:
        """Returns the Penstock models that several models share, OpenAI's routes; None if they do not change."""
        openai = {name: model for name, model in models.items() if _is_openai(model)}
        if not openai:
            removed, self._openai = self._openai, {}
            return [] if removed else None
        is_new = not self._openai
        # Changed in place: the routes read it on each request, so that they and their engines keep running.
        self._openai.clear()
        self._openai.update(openai)
        if not is_new:
            if self._openai_loop is not None:
                self._openai_loop.add(self._loops.new_engines(openai))
            return None
        from penstock.compat.kserve.protocol.rest.openai import _routes as routes

        self._openai_loop = self._loops.setup_for(openai)
        return [
            one.with_options(name=":openai") for one in routes.openai_routes(self._openai, loop_hooks=self._openai_loop)
        ]


def _is_openai(model: Any) -> bool:
    # Such a model can exist only if its module is loaded.
    module = sys.modules.get("penstock.compat.kserve.protocol.rest.openai.openai_model")
    return module is not None and isinstance(model, module.OpenAIModel)


async def _refuse(request: Request) -> Response:
    """Refuses requests to a model that does not support inference."""
    return Response('{"error":"the model does not support inference"}', status=500, content_type="application/json")
