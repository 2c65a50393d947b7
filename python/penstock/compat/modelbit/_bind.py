"""The Penstock models of deployments."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock import Batching, Context, Fallback, Model, Processes, Request, Response, Tensor
from penstock.compat.modelbit._function.worker import OUTPUTS, DirectWorker, JoiningWorker, Worker, joined
from penstock.compat.modelbit._gateway.gateway import Gate
from penstock.compat.modelbit._gateway.parse_request import own_routes_of
from penstock.compat.modelbit._gateway.request_options import MARKS
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.deployment import Deployment

__all__ = ["ABANDONED_AFTER", "gate_model", "model_of"]

ABANDONED_AFTER = 0.2
"""Seconds that a process may go on with a request that was given up, before it is stopped and started anew."""
_AT_ONCE = 1024
"""Requests that wait on one event loop."""


def model_of(deployment: Deployment, settings: Settings, gate: Gate) -> Model[..., Any]:
    """The model that computes a deployment."""
    if deployment.alone:
        return _model_alone(deployment, settings, gate)
    # It takes a request's body, and gives the answer's. Processes can be stopped, and have modules, a working folder
    # and an environment of their own.
    processes = Processes(settings.workers, abandoned_after=ABANDONED_AFTER, env=deployment.environment())
    common: dict[str, Any] = {
        "name": deployment.model,
        "version": deployment.version,
        "description": _description(deployment),
        "inputs": [Tensor("body", bytes, [1])],
        "outputs": [Tensor(*one, [1]) for one in zip(OUTPUTS, (bytes, np.int64, bytes), strict=True)],
        "instances": settings.workers if deployment.here else processes,
    }
    if deployment.direct:
        fallback = Fallback(gate.name, after=settings.timeout, match_body=MARKS)
        return Model(DirectWorker, routes=own_routes_of(deployment), fallback=fallback, **common)
    worker: type = JoiningWorker if deployment.joins else Worker
    return Model(
        _joining_here(deployment, gate) if deployment.here else worker,
        batching=Batching(max_size=settings.join) if deployment.joins else None,
        **common,
    )


def gate_model(name: str, gate: Gate) -> Model[..., Any]:
    """The model that has the other routes of what runs elsewhere. It only passes on, so one event loop is enough."""

    class Front:
        async def __call__(self, request: Request, ctx: Context) -> Response:
            return await gate.answer(request, ctx)

        async def close(self) -> None:
            await gate.finish()

    return Model(
        Front,
        name=name,
        description="Modelbit's REST interface",
        routes=gate.routes(),
        max_concurrency=_AT_ONCE,
    )


def _model_alone(deployment: Deployment, settings: Settings, gate: Gate) -> Model[..., Any]:
    """A model that answers requests itself, in the server's process."""

    class Loaded:
        def __init__(self) -> None:
            gate.here.load(deployment)

    class Plain(Loaded):
        def __call__(self, request: Request, ctx: Context) -> Response:
            return gate.answer_now(request, ctx)

        def close(self) -> None:
            gate.leave_now(deployment)

    class Waiting(Loaded):
        async def __call__(self, request: Request, ctx: Context) -> Response:
            return await gate.answer_soon(request, ctx)

        async def close(self) -> None:
            await gate.finish()
            gate.here.leave(deployment)

    waits = deployment.waits and deployment.columns is None
    options: dict[str, Any] = {"max_concurrency": _AT_ONCE} if waits else {"instances": settings.workers}
    return Model(
        Waiting if waits else Plain,
        name=deployment.model,
        version=deployment.version,
        description=_description(deployment),
        routes=gate.routes_of(deployment),
        **options,
    )


def _joining_here(deployment: Deployment, gate: Gate) -> type:
    """What joins requests in the server's process."""

    class Joining:
        def __init__(self) -> None:
            self._runner = gate.here.load(deployment)

        def __call__(self, body: Any, ctx: Context) -> Any:
            return joined(self._runner, body, ctx)

        def close(self) -> None:
            gate.here.leave(deployment)

    return Joining


def _description(deployment: Deployment) -> str:
    return f"Deployment {deployment.name}, version {deployment.version} of branch {deployment.branch}"
