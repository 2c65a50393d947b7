"""`Owner`: `ModelServer` as the modules that run it see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.compat.kserve._model.base import BaseKServeModel
    from penstock.compat.kserve.model_repository import ModelRepository
    from penstock.compat.kserve.protocol.dataplane import DataPlane
    from penstock.compat.kserve.protocol.model_repository_extension import ModelRepositoryExtension

__all__ = ["ExceptionHandler", "Owner"]

ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


class Owner(Protocol):
    """A model server; see `ModelServer` for the attributes."""

    http_port: int
    grpc_port: int
    workers: int
    max_asyncio_workers: int | None
    enable_grpc: bool
    enable_docs_url: bool
    enable_latency_logging: bool
    access_log_format: str | None
    event_loop: str
    timeout_keep_alive: float
    grace_period: float
    ssl_certfile: str | None
    ssl_keyfile: str | None
    host: str | None
    threads: int
    max_batch_size: int | None
    max_batch_latency: float
    require_ready: bool
    registered_models: ModelRepository
    dataplane: DataPlane
    model_repository_extension: ModelRepositoryExtension
    _log_config: Any
    _message_limits: tuple[int, int]
    _custom_exception_handler: ExceptionHandler | None

    def default_exception_handler(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs an exception that no task awaits."""

    def register_model(self, model: BaseKServeModel, name: str | None = None) -> None:
        """Adds or replaces a model."""

    def register_model_handle(self, name: str, model_handle: Any) -> None:
        """Adds the handle of a model that runs elsewhere."""

    def stop(self, sig: int | None = None) -> Any:
        """Begins to stop the server."""
