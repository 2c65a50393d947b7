"""`ModelServer`: serves models until a signal. `parser` and `args` are its command line, read on first use."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from penstock.compat.kserve import context, dialect, logging
from penstock.compat.kserve._model.model_transfer import refuse_start_during_import
from penstock.compat.kserve._server import flags, settings
from penstock.compat.kserve._server.owner import ExceptionHandler
from penstock.compat.kserve._server.serving import Serving
from penstock.compat.kserve._server.start_args import register
from penstock.compat.kserve._server.stop_result import StopResult
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.model import BaseKServeModel, PredictorConfig
from penstock.compat.kserve.model_repository import ModelRepository
from penstock.compat.kserve.protocol.dataplane import DataPlane
from penstock.compat.kserve.protocol.model_repository_extension import ModelRepositoryExtension

__all__ = ["ModelServer", "args", "parser"]

parser: argparse.ArgumentParser
"""All flags, for `argparse.ArgumentParser(parents=[parser])`."""
args: argparse.Namespace
"""The flags of the command line; the program's own flags are ignored."""


class _Unset:
    """The default of arguments that the command line sets."""

    def __repr__(self) -> str:
        return "from the command line"


_FLAG: Any = _Unset()


class ModelServer:
    """Serves models over HTTP and gRPC until SIGINT, SIGTERM, SIGQUIT or `stop`.

    Defaults come from the command line, and else are KServe's.

    Args:
        http_port: HTTP port, on all interfaces; 0 picks a free one. Default 8080.
        grpc_port: gRPC port; 0 picks a free one. Default 8081.
        workers: Worker processes. 1 computes in this process, with threads and event loops.
        max_threads: Ignored: gRPC has no thread pool.
        max_asyncio_workers: Threads of the event loops' executor, for blocking code.
        registered_models: The repository.
        enable_grpc: Whether to serve gRPC.
        enable_docs_url: Whether to serve /docs and /openapi.json.
        enable_latency_logging: Whether to log the stage durations of each request.
        access_log_format: Turns the access log on; its format is Penstock's.
        event_loop: "auto", "asyncio" or "uvloop".
        timeout_keep_alive: Seconds until an idle connection is closed.
        grace_period: Seconds for requests to complete when the server stops.
        predictor_config: The predictor of all models; by default the command line's.
        ssl_certfile: Refused.
        ssl_keyfile: Refused.
        host: The address to listen on; None for all.
        threads: Concurrent calls of one model's plain (not async) handlers. Default 16.
        max_batch_size: The most rows of concurrent requests that share a call; None for no batching.
        max_batch_latency: Milliseconds for which a request waits for others.
        require_ready: Whether `start` skips models that are not ready, and raises `NoModelReady` if none is, as KServe
            does since 0.14. Otherwise they are served, with status 503 until they are ready.

    Raises:
        ValueError: an argument or a flag cannot be applied; the message names it.

    Example:
        >>> ModelServer(http_port=8080, workers=2).start([model])
    """

    http_port: int
    grpc_port: int
    workers: int
    max_threads: int
    max_asyncio_workers: int | None
    enable_grpc: bool
    enable_docs_url: bool
    enable_latency_logging: bool
    access_log_format: str | None
    event_loop: str
    timeout_keep_alive: float
    ssl_certfile: str | None
    ssl_keyfile: str | None
    host: str | None
    threads: int
    max_batch_size: int | None
    max_batch_latency: float
    require_ready: bool

    _SETTINGS = tuple(__annotations__)
    """Attributes that the command line sets."""

    def __init__(  # noqa: PLR0917 - KServe's order
        self,
        http_port: int = _FLAG,
        grpc_port: int = _FLAG,
        workers: int = _FLAG,
        max_threads: int = _FLAG,
        max_asyncio_workers: int | None = _FLAG,
        registered_models: ModelRepository | None = None,
        enable_grpc: bool = _FLAG,
        enable_docs_url: bool = _FLAG,
        enable_latency_logging: bool = _FLAG,
        access_log_format: str | None = _FLAG,
        event_loop: str = _FLAG,
        timeout_keep_alive: float = _FLAG,
        grace_period: float = 30,
        predictor_config: PredictorConfig | None = None,
        ssl_certfile: str | None = _FLAG,
        ssl_keyfile: str | None = _FLAG,
        *,
        host: str | None = _FLAG,
        threads: int = _FLAG,
        max_batch_size: int | None = _FLAG,
        max_batch_latency: float = _FLAG,
        require_ready: bool = _FLAG,
    ) -> None:
        given, arguments = dict(locals()), flags.read()
        for name in self._SETTINGS:
            flag = name if hasattr(arguments, name) else flags.OWN + name
            setattr(self, name, getattr(arguments, flag) if given[name] is _FLAG else given[name])
        self.registered_models = ModelRepository() if registered_models is None else registered_models
        self.grace_period = grace_period
        settings.check(self)
        self._log_config = arguments.log_config_file if arguments.configure_logging else False
        if arguments.configure_logging and not logger.handlers:
            logging.configure_logging(arguments.log_config_file)
        self.predictor_config = predictor_config or _predictor_config(arguments)
        context.set_predictor_config(self.predictor_config)
        self.dataplane = DataPlane(self.registered_models, self.predictor_config)
        self.model_repository_extension = ModelRepositoryExtension(model_registry=self.registered_models)
        self.servers: list[Any] = []
        self._rest_server = self._grpc_server = None
        self._message_limits = (arguments.grpc_max_send_message_length, arguments.grpc_max_receive_message_length)
        self._custom_exception_handler: ExceptionHandler | None = None
        self._serving: Serving | None = None

    def start(self, models: Any) -> None:
        """Serves models; blocks until the server is stopped and requests have completed, at most `grace_period` later.

        Signals are handled in the main thread only.

        Args:
            models: A list of models, which may be empty; or Ray Serve deployments by name.

        Raises:
            RuntimeError: `models` is neither.
            NoModelReady: `require_ready` is set, and no model is ready.
            BindError: a port cannot be listened on.
            SignatureError: a model cannot be sent to workers; the message names the attribute.
        """
        refuse_start_during_import()
        register(self, models)
        self._serving = Serving(self)
        try:
            self._serving.run()
        finally:
            self._serving = None

    def stop(self, sig: int | None = None) -> StopResult:
        """Begins to stop the server: requests complete, each model's `stop` is called, and `start` returns.

        Args:
            sig: The signal that caused it.

        Returns:
            An awaitable of the end, which need not be awaited.
        """
        del sig
        return StopResult(Serving.stop(self._serving, self.registered_models))

    def register_model(self, model: BaseKServeModel, name: str | None = None) -> None:
        """Adds or replaces a model; a running server serves it at once.

        Args:
            model: The model.
            name: A name other than the model's own; a model may have several.

        Raises:
            ValueError: the model has no name.
        """
        if not model.name:
            raise ValueError("Failed to register model, model.name must be provided.")
        name = name or model.name
        # Set before the model serves: a handler may read it.
        model.enable_latency_logging = self.enable_latency_logging  # type: ignore[attr-defined]
        self.registered_models.update(model, name)
        self._sync()
        logger.info("Registering model: %s", name)

    def register_model_handle(self, name: str, model_handle: Any) -> None:
        """Adds the handle of a model that runs elsewhere, with `model_handle.remote(body, headers=...)`.

        Args:
            name: Its name.
            model_handle: The handle.
        """
        self.registered_models.update_handle(name, model_handle)
        self._sync()
        logger.info("Registering model handle: %s", name)

    def register_exception_handler(self, handler: ExceptionHandler | None) -> None:
        """Sets the handler of exceptions on event loops that no task awaits.

        Args:
            handler: Called with the loop and asyncio's context; None for `default_exception_handler`.
        """
        self._custom_exception_handler = handler

    def default_exception_handler(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs an exception that no task awaits; in the dialect of KServe 0.13 also stops the server.

        Args:
            loop: The loop.
            context: asyncio's description.
        """
        if "exception" in context:
            logger.error("Caught exception: %s", context["exception"])
        logger.error("message: %s", context.get("message"))
        loop.default_exception_handler(context)
        if dialect.is_old():
            self.stop()

    def _sync(self) -> None:
        """Serves changes of a repository that does not report them."""
        if self._serving is not None:
            self._serving.sync()


def _predictor_config(arguments: argparse.Namespace) -> PredictorConfig:
    return PredictorConfig(
        predictor_host=arguments.predictor_host,
        predictor_protocol=arguments.predictor_protocol,
        predictor_use_ssl=arguments.predictor_use_ssl,
        predictor_request_timeout_seconds=arguments.predictor_request_timeout_seconds,
        predictor_request_retries=arguments.predictor_request_retries,
        predictor_health_check=arguments.enable_predictor_health_check,
    )


def __getattr__(name: str) -> Any:
    # On first use: a program that only imports this module may have its own command line.
    if name == "parser":
        value: Any = flags.make_parser()
    elif name == "args":
        value = flags.read()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
