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
from penstock.compat.pytriton._settings.cache import caching_of
from penstock.compat.pytriton._settings.security import TritonSecurityConfig
from penstock.compat.pytriton._settings.server_config import reachable, server_config, tell_unused
from penstock.compat.pytriton._settings.triton_config import TritonConfig, merged
from penstock.compat.pytriton.utils.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Triton", "TritonServer"]


class TritonServer:
    """The running server, as scripts know PyTriton's."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def is_alive(self) -> bool:
        """Whether it has not stopped."""
        return not self._server.wait(0.0)

    def get_endpoint(self, endpoint_name: str) -> str:
        """The URL of `http`, `grpc` or `metrics`, for clients of this machine."""
        if endpoint_name == "grpc":
            return f"grpc://{self._server.grpc_url}"
        if endpoint_name == "http":
            return self._server.http_url
        return f"http://{reachable(self._server.metrics_address or '')}"


class Triton(TritonBase):
    """A server in this process, and the callables that are bound to it.

    Args:
        config: Settings; they stand above those of `TritonConfig.from_env()`.
        workspace: A folder, or where to make one. It is removed by `stop`.
        triton_lifecycle_policy: When the server starts; by default on entry, for Vertex AI once models are bound.
        security_config: What asks for a token; by default all that administers, for one that is made up.

    Raises:
        PyTritonValidationError: a setting cannot be kept.
        ConfigError: an address, a pattern or a rule is none.

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
        self._caching = caching_of(self._config)
        self._triton_server: TritonServer | None = None
        self._server: Server | None = None
        tell_unused(self._config)
        self._protocol = "grpc" if self._settings.http is None else "http"
        address = self._settings.grpc if self._settings.http is None else self._settings.http
        super().__init__(
            f"{self._protocol}://{reachable(address or '')}", workspace, policy, self._security_config.access_token
        )

    def run(self) -> None:
        """Starts the server with the models that are bound, and returns when all are ready. Again, it does nothing.

        Raises:
            BindError: an address cannot be listened on.
            PyTritonBadParameterError: a model's configuration has a value that it cannot have.
        """
        with self._lock:
            self._start()
            self.connect()

    def serve(self, monitoring_period_s: float = MONITORING_PERIOD_S) -> None:
        """Starts the server if need be, and blocks until it is stopped; see `TritonBase.serve`."""
        self.run()
        self._watch(monitoring_period_s)

    def get_access_token(self) -> str | None:
        """What the protected parts ask for: as it was given, or made up; None where nothing is protected."""
        return self._security_config.access_token

    def __enter__(self) -> Self:
        if self._triton_lifecycle_policy.launch_triton_on_startup:
            self._start()
        return super().__enter__()

    def _start(self) -> None:
        with self._lock:
            if self._server is not None:
                return
            bound = [one for one in self._model_manager.models if not one.loaded]
            models = [self._made(one) for one in bound]
            server = self._started(models)
            self._server, self._triton_server = server, TritonServer(server)
            self._url = self._triton_server.get_endpoint(self._protocol)
            # After the server's own: this one runs first then, and lets requests finish.
            self._begin()
            for one in bound:
                one.loaded = True
            self._warn_of_verbose_log()

    def _started(self, models: Sequence[Model[..., Any]]) -> Server:
        def start(settings: ServerConfig) -> Server:
            return (Server(*models, config=settings) if models else Server.empty(config=settings)).start()

        try:
            return start(self._settings)
        except BindError as error:
            if self._settings.attach != "auto" or not str(error).startswith("attach: "):
                raise
            # Who serves alone needs no such place.
            LOGGER.warning("RemoteTriton cannot attach models: %s", error)
            return start(replace(self._settings, attach=None))

    def _cache(self) -> Cache | None:
        return self._caching.cache()

    def _wait_for_server(self) -> None:
        if self._server is None:
            raise TimeoutError("Triton Inference Server is not ready after timeout: it was not started, run() does so.")

    def _load(self, models: Sequence[BoundModel]) -> None:
        assert self._server is not None
        self._server.add(*map(self._made, models))
        for one in models:
            one.loaded = True

    def _is_alive_impl(self) -> bool:
        return self._triton_server is not None and self._triton_server.is_alive()

    def _heed(self, signals: Signals) -> None:
        signals.heed(self._server)

    def _stop_impl(self, timeout: float | None = None) -> None:
        if (server := self._server) is not None:
            if cut := server.stop(timeout):
                LOGGER.warning("Cut off before they had finished: %s", ", ".join(cut))
            self._server = None

    def _verbose_level(self) -> int:
        return self._config.log_verbose or 0
