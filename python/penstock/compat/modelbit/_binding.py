"""The Penstock models of deployments."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock import Batching, Context, Model, Processes, Request, Response, Tensor
from penstock.compat.modelbit._deployment import Deployment
from penstock.compat.modelbit._gate import Gate
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._worker import JoiningWorker, Worker

__all__ = ["ABANDONED_AFTER", "gate_model", "model_of"]

ABANDONED_AFTER = 0.2
"""Seconds that a process may go on with a request that was given up, before it is stopped and started anew."""


def model_of(deployment: Deployment, settings: Settings) -> Model[..., Any]:
    """The model that computes a deployment, in processes of its own.

    It takes a request's body, and gives the answer's. Processes can be stopped, and have modules, a working folder
    and an environment of their own.
    """
    joins = deployment.columns is not None and settings.join > 1
    return Model(
        JoiningWorker if joins else Worker,
        name=deployment.model,
        version=deployment.version,
        description=f"Deployment {deployment.name}, version {deployment.version} of branch {deployment.branch}",
        inputs=[Tensor("body", bytes, [1])],
        outputs=[Tensor("answer", bytes, [1]), Tensor("status", np.int64, [1]), Tensor("record", bytes, [1])],
        instances=Processes(settings.workers, abandoned_after=ABANDONED_AFTER, env=deployment.environment()),
        batching=Batching(max_size=settings.join) if joins else None,
    )


def gate_model(name: str, gate: Gate) -> Model[..., Any]:
    """The model that has the routes. It only passes on, so one event loop is enough."""

    async def answer(request: Request, ctx: Context) -> Response:
        return await gate.answer(request, ctx)

    return Model(
        answer,
        name=name,
        description="Modelbit's REST interface",
        routes=gate.routes(),
        max_concurrency=1024,
    )
