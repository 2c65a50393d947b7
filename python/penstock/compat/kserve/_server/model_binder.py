"""How models are bound: their instances, their rows, and what they share."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import Batching, Processes, Request, Response
from penstock import Model as Native
from penstock.compat.kserve._model.draining import Life
from penstock.compat.kserve._model.handler_kind import waits
from penstock.compat.kserve._model.health import says
from penstock.compat.kserve._model.model_transfer import Carried
from penstock.compat.kserve._request.bind import BindingOptions, bind
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.model import BaseKServeModel

if TYPE_CHECKING:
    from penstock.compat.kserve._server.event_loops import Loops, LoopSetUp
    from penstock.compat.kserve.model_server import ModelServer

__all__ = ["Workers"]


class Workers:
    """Makes Penstock models of a server's models.

    Args:
        owner: Whose arguments count.
        loops: Sets up the event loops of async handlers.
        environment: What is different in the environment of workers.
    """

    def __init__(
        self,
        owner: ModelServer,
        loops: Loops,
        environment: Mapping[str, str],
    ) -> None:
        self._owner, self._loops, self._environment = owner, loops, environment
        self._lives: dict[str, Life | None] = {}
        self._openai: dict[str, Any] = {}
        self._openai_loop: LoopSetUp | None = None

    def bind(self, model: Any, name: str) -> Native[..., Any]:
        """The Penstock model that serves a model under a name.

        Raises:
            SignatureError: it cannot be served so, or not be sent to workers.
        """
        owner = self._owner
        if not isinstance(model, BaseKServeModel):
            from penstock.compat.kserve import ray

            model = ray.of_handle(name, model)
        if not callable(model):
            return Native(_takes_none, name=name, description=type(model).__doc__ or "", max_concurrency=1)
        # One that is not ready refuses here; its processes are made of what it is once it is ready.
        apart = self._goes_to_workers(model) and model.ready
        life = None if apart else Life()
        self._lives[name] = life
        batching = None
        if owner.max_batch_size is not None:
            batching = Batching(max_size=owner.max_batch_size, max_delay=owner.max_batch_latency / 1000)
        if not waits(model):
            self._loops.beside(model, name)
        options = BindingOptions(
            name=name,
            instances=Processes(owner.workers, env=self._environment) if apart else owner.threads,
            batching=batching,
            latency_logging=owner.enable_latency_logging,
            on_loop=self._loops.of({name: model}) if waits(model) else None,
            life=life,
            carried=Carried.packed(model, name, owner._log_config) if apart else None,
        )
        return bind(model, options)

    def wait_for_end_of(self, name: str) -> None:
        """Waits until a model that was taken out has answered its last request, at most the server's grace period."""
        life = self._lives.pop(name, None)
        if life is not None and not life.wait(self._owner.grace_period):
            logger.warning("Model %s is unloaded, and still computes", name)

    def is_to_be_bound_anew(self, model: Any, bound_when_ready: bool) -> bool:
        """Whether a model that is ready now has to be bound again, since it was not when it was bound."""
        return self._goes_to_workers(model) and not bound_when_ready and says(model)

    def _goes_to_workers(self, model: Any) -> bool:
        # What Ray computes is only handed on, which this process does best: the handles are its own.
        return self._owner.workers > 1 and not getattr(model, "computes_elsewhere", False)

    def shared(self, models: dict[str, Any]) -> Sequence[Native[..., Any]] | None:
        """The Penstock models of what several models share, OpenAI's routes; None if those that there are go on."""
        ours = {name: model for name, model in models.items() if _is_openai(model)}
        if not ours:
            gone, self._openai = self._openai, {}
            return [] if gone else None
        is_new = not self._openai
        # The routes look it up there: what serves is not replaced, and so no engine has to end.
        self._openai.clear()
        self._openai.update(ours)
        if not is_new:
            if self._openai_loop is not None:
                self._openai_loop.add(self._loops.with_engines(ours))
            return None
        from penstock.compat.kserve.protocol.rest.openai import _routes as routes

        self._openai_loop = self._loops.of(ours)
        return [
            one.with_options(name=":openai") for one in routes.openai_routes(self._openai, on_loop=self._openai_loop)
        ]


def _is_openai(model: Any) -> bool:
    # If their module is not loaded, nobody can have made one.
    module = sys.modules.get("penstock.compat.kserve.protocol.rest.openai.openai_model")
    return module is not None and isinstance(model, module.OpenAIModel)


async def _takes_none(request: Request) -> Response:
    """The handler of models that take no requests of tensors."""
    return Response('{"error":"the model does not support inference"}', status=500, content_type="application/json")
