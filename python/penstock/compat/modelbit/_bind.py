"""Penstock models of deployments and of the gateway."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock import Batching, Context, Fallback, Model, Processes, Request, Response, Tensor
from penstock.compat.modelbit._function.worker import OUTPUTS, BatchingWorker, DirectWorker, Worker, compute_batch
from penstock.compat.modelbit._gateway.gateway import Gateway
from penstock.compat.modelbit._gateway.parse_request import exact_routes
from penstock.compat.modelbit._gateway.request_options import OPTION_PATTERNS
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.deployment import Deployment

__all__ = ["ABANDONED_AFTER", "deployment_model", "gateway_model"]

ABANDONED_AFTER = 0.2
"""Seconds that a worker process may spend on an abandoned request before it is restarted."""
_MAX_CONCURRENCY = 1024
"""Requests in flight per event loop."""


def deployment_model(deployment: Deployment, settings: Settings, gateway: Gateway) -> Model[..., Any]:
    """Returns the model that computes a deployment.

    Unless it serves in process, its input is a request body and its output a response body.
    """
    if deployment.serves_in_process:
        return _in_process_model(deployment, settings, gateway)
    # Processes: they can be killed on timeout, and have their own modules, working directory and environment.
    processes = Processes(settings.workers, abandoned_after=ABANDONED_AFTER, env=deployment.environment())
    common: dict[str, Any] = {
        "name": deployment.model,
        "version": deployment.version,
        "description": _description(deployment),
        "inputs": [Tensor("body", bytes, [1])],
        "outputs": [Tensor(*one, [1]) for one in zip(OUTPUTS, (bytes, np.int64, bytes), strict=True)],
        "instances": settings.workers if deployment.in_process else processes,
    }
    if deployment.direct:
        fallback = Fallback(gateway.name, after=settings.timeout, match_body=OPTION_PATTERNS)
        return Model(DirectWorker, routes=exact_routes(deployment), fallback=fallback, **common)
    worker: type = BatchingWorker if deployment.batched else Worker
    return Model(
        _in_process_batching(deployment, gateway) if deployment.in_process else worker,
        batching=Batching(max_size=settings.join) if deployment.batched else None,
        **common,
    )


def gateway_model(name: str, gateway: Gateway) -> Model[..., Any]:
    """Returns the model of the gateway's routes. It only forwards, so one event loop is enough."""

    class GatewayHandler:
        async def __call__(self, request: Request, ctx: Context) -> Response:
            return await gateway.handle(request, ctx)

        async def close(self) -> None:
            await gateway.drain()

    return Model(
        GatewayHandler,
        name=name,
        description="Modelbit's REST interface",
        routes=gateway.routes(),
        max_concurrency=_MAX_CONCURRENCY,
    )


def _in_process_model(deployment: Deployment, settings: Settings, gateway: Gateway) -> Model[..., Any]:
    """Returns a model that calls the function in the server's process, without the gateway's model."""

    class LoadedFunction:
        def __init__(self) -> None:
            gateway.functions.load(deployment)

    class SyncHandler(LoadedFunction):
        def __call__(self, request: Request, ctx: Context) -> Response:
            return gateway.handle_sync(request, ctx)

        def close(self) -> None:
            gateway.unload(deployment)

    class AsyncHandler(LoadedFunction):
        async def __call__(self, request: Request, ctx: Context) -> Response:
            return await gateway.handle_async(request, ctx)

        async def close(self) -> None:
            await gateway.drain()
            gateway.functions.unload(deployment)

    is_async = deployment.is_async and deployment.columns is None
    options: dict[str, Any] = {"max_concurrency": _MAX_CONCURRENCY} if is_async else {"instances": settings.workers}
    return Model(
        AsyncHandler if is_async else SyncHandler,
        name=deployment.model,
        version=deployment.version,
        description=_description(deployment),
        routes=gateway.routes_of(deployment),
        **options,
    )


def _in_process_batching(deployment: Deployment, gateway: Gateway) -> type:
    """Returns a handler that computes batches of requests in the server's process."""

    class BatchingHandler:
        def __init__(self) -> None:
            self._runner = gateway.functions.load(deployment)

        def __call__(self, body: Any, ctx: Context) -> Any:
            return compute_batch(self._runner, body, ctx)

        def close(self) -> None:
            gateway.functions.unload(deployment)

    return BatchingHandler


def _description(deployment: Deployment) -> str:
    return f"Deployment {deployment.name}, version {deployment.version} of branch {deployment.branch}"
