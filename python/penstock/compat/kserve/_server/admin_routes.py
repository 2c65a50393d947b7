"""`AdminRoutes`: KServe's routes without a model: probes, lists, metadata, loading and unloading."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from penstock import Model as Native
from penstock import Request, Response, model
from penstock.compat.kserve.errors import ModelNotFound, ModelNotReady, ServerNotReady
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.model import BaseKServeModel

if TYPE_CHECKING:
    from penstock.compat.kserve._metrics.metrics_page import MetricsPage
    from penstock.compat.kserve._server.model_table import ModelTable
    from penstock.compat.kserve.protocol.dataplane import DataPlane
    from penstock.compat.kserve.protocol.model_repository_extension import ModelRepositoryExtension

__all__ = ["NAME", "AdminRoutes"]

NAME = ":kserve"
"""The name of the Penstock model that serves the routes; hidden from lists."""

CONCURRENCY = 256
"""The most concurrent requests."""

STATUSES = {ModelNotFound: 404, ModelNotReady: 503, ServerNotReady: 503, NotImplementedError: 501}


class AdminRoutes:
    """Handles requests about the server, on their own event loop: no probe waits behind a prediction.

    Args:
        dataplane: Describes the models.
        extension: Loads and unloads models.
        table: The served models.
        metrics: The metrics page, if the script has metrics.
    """

    def __init__(
        self, dataplane: DataPlane, extension: ModelRepositoryExtension, table: ModelTable, metrics: MetricsPage
    ) -> None:
        self._dataplane, self._extension, self._table, self._metrics = dataplane, extension, table, metrics
        self._routes: dict[str, Callable[[Request], Awaitable[Any]]] = {
            "GET /v1/models": self._models,
            "GET /v1/models/{name}": self._ready,
            "POST /v1/models/{name}:predict": self._unserved,
            "POST /v1/models/{name}:explain": self._unserved,
            "GET /v2/health/ready": self._server_ready,
            "GET /v2/models": self._models,
            "GET /v2/models/{name}": self._metadata,
            "GET /v2/models/{name}/ready": self._ready,
            "POST /v2/repository/models/{name}/load": self._load,
            "POST /v2/repository/models/{name}/unload": self._unload,
        }
        if metrics.wanted:
            self._routes["GET /metrics"] = self._page

    def native_model(self) -> Native[..., Any]:
        """Returns the Penstock model that serves the routes."""
        return model(self.handle, name=NAME, description="", routes=[*self._routes], max_concurrency=CONCURRENCY)

    async def handle(self, request: Request) -> Response:
        """Handles a request."""
        try:
            content = await self._routes[request.route or ""](request)
            return content if isinstance(content, Response) else _json(200, content)
        except Exception as error:
            status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)
            if status == 500:
                logger.exception("%s %s failed", request.method, request.path)
            text = f"{type(error).__name__} : {error}" if status == 500 else str(error)
            return _json(status, {"error": text})

    async def _page(self, request: Request) -> Any:
        page, media_type = await self._metrics.render(request.headers.get("accept", ""))
        return Response(page, content_type=media_type)

    async def _models(self, _: Request) -> Any:
        return {"models": [*self._dataplane.model_registry.get_models()]}

    async def _ready(self, request: Request) -> Any:
        name = request.path_params["name"]
        own = await self._dataplane.model_ready(name, disable_predictor_health_check=True)
        self._table.set_ready(name, own)
        config = self._dataplane.predictor_config
        checks_predictor = config is not None and config.predictor_health_check
        if not own or (checks_predictor and not await self._dataplane.model_ready(name)):
            raise ModelNotReady(name)
        return {"name": name, "ready": True}

    async def _server_ready(self, _: Request) -> Any:
        if not await self._dataplane.ready():
            raise ServerNotReady
        return {"ready": True}

    async def _metadata(self, request: Request) -> Any:
        metadata = await self._dataplane.model_metadata(request.path_params["name"])
        return {"name": metadata.pop("name"), "versions": None, **metadata}

    async def _unserved(self, request: Request) -> Any:
        # Reached only while the model does not serve: a served model has these routes itself.
        name = request.path_params["name"]
        registered = self._dataplane.get_model_from_registry(name)
        if callable(registered) or not isinstance(registered, BaseKServeModel):
            # The model is being added or removed.
            raise ModelNotReady(name)
        raise ValueError(f"Model of type {type(registered).__name__} does not support inference")

    async def _load(self, request: Request) -> Any:
        name = request.path_params["name"]
        await self._extension.load(name)
        await asyncio.to_thread(self._table.sync)
        return {"name": name, "load": True}

    async def _unload(self, request: Request) -> Any:
        name = request.path_params["name"]
        await self._extension.unload(name)
        await asyncio.to_thread(self._table.sync)
        return {"name": name, "unload": True}


def _json(status: int, content: Any) -> Response:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=str)
    return Response(text, status=status, content_type="application/json")
