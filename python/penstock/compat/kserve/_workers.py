"""How models are bound: their instances, their rows, and what they share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import Batching, Processes, Request, Response
from penstock import Model as Native
from penstock.compat.kserve._binding import BindingOptions, bind
from penstock.compat.kserve._carrying import Carried
from penstock.compat.kserve._health import says
from penstock.compat.kserve.model import BaseKServeModel

if TYPE_CHECKING:
    from penstock.compat.kserve._loops import Loops
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
        self._openai: dict[str, Any] = {}

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
        apart = owner.workers > 1 and model.ready
        batching = None
        if owner.max_batch_size is not None:
            batching = Batching(max_size=owner.max_batch_size, max_delay=owner.max_batch_latency / 1000)
        options = BindingOptions(
            name=name,
            instances=Processes(owner.workers, env=self._environment) if apart else owner.threads,
            batching=batching,
            latency_logging=owner.enable_latency_logging,
            on_loop=self._loops.of(model, name),
            carried=Carried.packed(model, name, owner._log_config) if apart else None,
        )
        return bind(model, options)

    def is_to_be_bound_anew(self, model: Any, bound_when_ready: bool) -> bool:
        """Whether a model that is ready now has to be bound again, since it was not when it was bound."""
        return self._owner.workers > 1 and not bound_when_ready and says(model)

    def shared(self, models: dict[str, Any]) -> Sequence[Native[..., Any]] | None:
        """The Penstock models of what several models share, OpenAI's routes; None if it is as it was before."""
        ours = {name: model for name, model in models.items() if _is_openai(model)}
        if ours == self._openai or any(getattr(one, "engine", False) for one in self._openai.values()):
            # With another loop the engines would have to begin anew: as in KServe, those of the start stay.
            return None
        self._openai = ours
        routes = importlib.import_module("penstock.compat.kserve.protocol.rest.openai._routes")
        found = routes.openai_routes(ours, on_loop=self._loops.of_all(ours.values()))
        return [one.with_options(name=":openai") for one in found]


def _is_openai(model: Any) -> bool:
    # If their module is not loaded, nobody can have made one.
    module = sys.modules.get("penstock.compat.kserve.protocol.rest.openai.openai_model")
    return module is not None and isinstance(model, module.OpenAIModel)


async def _takes_none(request: Request) -> Response:
    """The handler of models that take no requests of tensors."""
    return Response('{"error":"the model does not support inference"}', status=500, content_type="application/json")
