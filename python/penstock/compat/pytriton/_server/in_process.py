"""`Triton`: a server in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock import BindError, Cache, Model, Server, ServerConfig, Signals
from penstock.compat.pytriton._server.base import LOGGER, MONITORING_PERIOD_S, TritonBase
from penstock.compat.pytriton._server.bound_models import BoundModel
from penstock.compat.pytriton._server.lifecycle import (
    DefaultTritonLifecyclePolicy,
    TritonLifecyclePolicy,
    VertextAILifecyclePolicy,
)
from penstock.compat.pytriton._settings.cache import cache_settings
from penstock.compat.pytriton._settings.security import TritonSecurityConfig
from penstock.compat.pytriton._settings.server_config import client_address, server_config, warn_unused
from penstock.compat.pytriton._settings.triton_config import TritonConfig, merged
from penstock.compat.pytriton.utils.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Triton", "TritonServer"]


class TritonServer:
    """Running server, with the methods of PyTriton's class."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def is_alive(self) -> bool:
        """True until the server stops."""
        return not self._server.wait(0.0)

    def get_endpoint(self, endpoint_name: str) -> str:
        """Returns the URL of `http`, `grpc` or `metrics`, for clients on this machine."""
        if endpoint_name == "grpc":
            return f"grpc://{self._server.grpc_url}"
        if endpoint_name == "http":
            return self._server.http_url
        return f"http://{client_address(self._server.metrics_address or '')}"


class Triton(TritonBase):
    """A server in this process, and the callables that are bound to it.

    Args:
        config: Settings, which take precedence over `TritonConfig.from_env()`.
        workspace: A workspace, or the path of a new one. `stop` removes it.
        triton_lifecycle_policy: Time of the start: by default on entry, for Vertex AI after all models are bound.
        security_config: Protected endpoints: by default all administrative ones, with a generated token.

    Raises:
        PyTritonValidationError: a setting is not supported.
        ConfigError: an address, a pattern or a rule is invalid.

    Example:
        >>> with Triton() as triton:
        ...     triton.bind("double", double, inputs=[x], outputs=[y])
        ...     triton.serve()
    """

    def __init__(
        self,
        *,
        config: TritonConfig | None = None,
        workspace: Workspace | str | os.PathLike[str] | None = None,
        triton_lifecycle_policy: TritonLifecyclePolicy | None = None,
        security_config: TritonSecurityConfig | None = None,
    ) -> None:
        vertex = config is not None and config.allow_vertex_ai
        policy = triton_lifecycle_policy or (VertextAILifecyclePolicy if vertex else DefaultTritonLifecyclePolicy)
        self._config = merged(config or TritonConfig(), TritonConfig.from_env())
        self._security_config = security_config or TritonSecurityConfig()
        self._settings = server_config(self._config, self._security_config)
        self._cache_settings = cache_settings(self._config)
        self._triton_server: TritonServer | None = None
        self._server: Server | None = None
        warn_unused(self._config)
        self._protocol = "grpc" if self._settings.http is None else "http"
        address = self._settings.grpc if self._settings.http is None else self._settings.http
        super().__init__(
            f"{self._protocol}://{client_address(address or '')}", workspace, policy, self._security_config.access_token
        )

    def run(self) -> None:
        """Starts the server with the bound models, and returns when all are ready. A second call has no effect.

        Raises:
            BindError: an address is not available.
            PyTritonBadParameterError: a model's configuration has an invalid value.
        """
        with self._lock:
            self._start()
            self.connect()

    def serve(self, monitoring_period_s: float = MONITORING_PERIOD_S) -> None:
        """Starts the server if it is not running, and blocks until it stops; see `TritonBase.serve`."""
        self.run()
        self._watch(monitoring_period_s)

    def get_access_token(self) -> str | None:
        """Returns the token of the protected endpoints, given or generated; None if no endpoint is protected."""
        return self._security_config.access_token

    def __enter__(self) -> Self:
        if self._triton_lifecycle_policy.launch_triton_on_startup:
            self._start()
        return super().__enter__()

    def _start(self) -> None:
        with self._lock:
            if self._server is not None:
                return
            bound = [model for model in self._model_manager.models if not model.loaded]
            models = [self._create_model(model) for model in bound]
            server = self._start_server(models)
            self._server, self._triton_server = server, TritonServer(server)
            self._url = self._triton_server.get_endpoint(self._protocol)
            # Registered after the server's exit handler, so this one runs first and lets requests finish.
            self._mark_started()
            for model in bound:
                model.loaded = True
            self._warn_of_verbose_log()

    def _start_server(self, models: Sequence[Model[..., Any]]) -> Server:
        def start(settings: ServerConfig) -> Server:
            return (Server(*models, config=settings) if models else Server.empty(config=settings)).start()

        try:
            return start(self._settings)
        except BindError as error:
            if self._settings.attach != "auto" or not str(error).startswith("attach: "):
                raise
            # The socket for attached models is optional: the server itself works without it.
            LOGGER.warning("RemoteTriton cannot attach models: %s", error)
            return start(replace(self._settings, attach=None))

    def _cache(self) -> Cache | None:
        return self._cache_settings.cache()

    def _wait_for_server(self) -> None:
        if self._server is None:
            raise TimeoutError("Triton Inference Server is not ready after timeout: it was not started, run() does so.")

    def _load(self, models: Sequence[BoundModel]) -> None:
        assert self._server is not None
        self._server.add(*map(self._create_model, models))
        for model in models:
            model.loaded = True

    def _is_alive_impl(self) -> bool:
        return self._triton_server is not None and self._triton_server.is_alive()

    def _drain_on(self, signals: Signals) -> None:
        signals.set_target(self._server)

    def _stop_impl(self, timeout: float | None = None) -> None:
        if (server := self._server) is not None:
            if cut_off := server.stop(timeout):
                LOGGER.warning("Cut off before they had finished: %s", ", ".join(cut_off))
            self._server = None

    def _verbose_level(self) -> int:
        return self._config.log_verbose or 0
