"""The routes that are nobody's model: probes, lists, metadata, loading and unloading, in KServe's words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from penstock import Model as Native
from penstock import Request, Response, model
from penstock.compat.kserve._metrics.metrics_page import CONTENT_TYPE
from penstock.compat.kserve.errors import ModelNotFound, ModelNotReady, ServerNotReady
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.model import BaseKServeModel

if TYPE_CHECKING:
    from penstock.compat.kserve._metrics.metrics_page import Exposition
    from penstock.compat.kserve._server.model_table import Table
    from penstock.compat.kserve.protocol.dataplane import DataPlane
    from penstock.compat.kserve.protocol.model_repository_extension import ModelRepositoryExtension

__all__ = ["NAME", "Front"]

NAME = ":kserve"
"""The name of the Penstock model that answers; it is in no list."""

CONCURRENCY = 256
"""The most probes that are answered at once."""

STATUSES = {ModelNotFound: 404, ModelNotReady: 503, ServerNotReady: 503, NotImplementedError: 501}


class Front:
    """Answers what is asked of the server itself, on an event loop of its own: no probe waits behind a prediction.

    Args:
        dataplane: What is said of the models.
        extension: Loads and unloads them.
        table: What serves.
        metrics: The page of metrics, if it has more than the server's own.
    """

    def __init__(
        self, dataplane: DataPlane, extension: ModelRepositoryExtension, table: Table, metrics: Exposition
    ) -> None:
        self._dataplane, self._extension, self._table, self._metrics = dataplane, extension, table, metrics
        self._routes: dict[str, Callable[[Request], Awaitable[Any]]] = {
            "GET /v1/models": self._models,
            "GET /v1/models/{name}": self._ready,
            "POST /v1/models/{name}:predict": self._unknown,
            "POST /v1/models/{name}:explain": self._unknown,
            "GET /v2/health/ready": self._server_ready,
            "GET /v2/models": self._models,
            "GET /v2/models/{name}": self._metadata,
            "GET /v2/models/{name}/ready": self._ready,
            "POST /v2/repository/models/{name}/load": self._load,
            "POST /v2/repository/models/{name}/unload": self._unload,
        }
        if metrics.wanted:
            self._routes["GET /metrics"] = self._page

    def made(self) -> Native[..., Any]:
        """The Penstock model."""
        return model(self.answer, name=NAME, description="", routes=[*self._routes], max_concurrency=CONCURRENCY)

    async def answer(self, request: Request) -> Response:
        """Answers one request."""
        try:
            found = await self._routes[request.route or ""](request)
            return found if isinstance(found, Response) else _json(200, found)
        except Exception as error:
            status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)
            if status == 500:
                logger.exception("%s %s failed", request.method, request.path)
            text = f"{type(error).__name__} : {error}" if status == 500 else str(error)
            return _json(status, {"error": text})

    async def _page(self, _: Request) -> Any:
        return Response(await self._metrics.page(), content_type=CONTENT_TYPE)

    async def _models(self, _: Request) -> Any:
        return {"models": [*self._dataplane.model_registry.get_models()]}

    async def _ready(self, request: Request) -> Any:
        name = request.path_params["name"]
        own = await self._dataplane.model_ready(name, disable_predictor_health_check=True)
        self._table.tell(name, own)
        config = self._dataplane.predictor_config
        asks = config is not None and config.predictor_health_check
        if not own or (asks and not await self._dataplane.model_ready(name)):
            raise ModelNotReady(name)
        return {"name": name, "ready": True}

    async def _server_ready(self, _: Request) -> Any:
        if not await self._dataplane.ready():
            raise ServerNotReady
        return {"ready": True}

    async def _metadata(self, request: Request) -> Any:
        found = await self._dataplane.model_metadata(request.path_params["name"])
        return {"name": found.pop("name"), "versions": None, **found}

    async def _unknown(self, request: Request) -> Any:
        # A model that serves has these routes itself.
        name = request.path_params["name"]
        known = self._dataplane.get_model_from_registry(name)
        if callable(known) or not isinstance(known, BaseKServeModel):
            # It is on its way in, or out.
            raise ModelNotReady(name)
        raise ValueError(f"Model of type {type(known).__name__} does not support inference")

    async def _load(self, request: Request) -> Any:
        name = request.path_params["name"]
        await self._extension.load(name)
        await asyncio.to_thread(self._table.follow)
        return {"name": name, "load": True}

    async def _unload(self, request: Request) -> Any:
        name = request.path_params["name"]
        await self._extension.unload(name)
        await asyncio.to_thread(self._table.follow)
        return {"name": name, "unload": True}


def _json(status: int, content: Any) -> Response:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=str)
    return Response(text, status=status, content_type="application/json")
