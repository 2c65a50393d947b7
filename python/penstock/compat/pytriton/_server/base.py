"""`TritonBase`: the part that `Triton` and `RemoteTriton` share."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock import Cache, Model, Signals
from penstock.compat.pytriton._bind import bind
from penstock.compat.pytriton._model.binding import Binding
from penstock.compat.pytriton._server.bound_models import BoundModel, BoundModels
from penstock.compat.pytriton._server.lifecycle import DefaultTritonLifecyclePolicy, TritonLifecyclePolicy
from penstock.compat.pytriton.model_config import ModelConfig, Tensor
from penstock.compat.pytriton.proxy import telemetry
from penstock.compat.pytriton.utils.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MONITORING_PERIOD_S", "WAIT_FORM_MODEL_TIMEOUT_S", "TritonBase"]

LOGGER = logging.getLogger("pytriton.triton")

MONITORING_PERIOD_S = 10.0
"""Default interval of the health checks of `serve`."""
WAIT_FORM_MODEL_TIMEOUT_S = 60.0
"""PyTriton's timeout for a loaded model. Here a loaded model is ready at once."""

_DEFAULT_HANDLERS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""Signal handlers that `serve` replaces. Handlers of the script stay."""

_POLL_INTERVAL = 0.1
"""Seconds between checks for a signal."""

_IMMEDIATE_STOP_TIMEOUT = 1.0
"""Seconds that an immediate stop may take."""


class TritonBase:
    """Binds callables as models, and serves them.

    Args:
        url: Address of the server, for clients on this machine.
        workspace: A workspace, or the path of a new one.
        triton_lifecycle_policy: Time at which the server starts.
        access_token: Token of the server's protected endpoints.
    """

    def __init__(
        self,
        url: str,
        workspace: Workspace | str | os.PathLike[str] | None = None,
        triton_lifecycle_policy: TritonLifecyclePolicy = DefaultTritonLifecyclePolicy,
        access_token: str | None = None,
    ) -> None:
        self._url = url
        self._workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self._triton_lifecycle_policy = triton_lifecycle_policy
        self._access_token = access_token
        self._model_manager = BoundModels()
        self._lock = threading.RLock()
        """Held while the server starts, connects or binds."""
        self._stopped, self._connected = True, False
        self._failed = threading.Event()
        """Set when a callable cannot serve any more requests."""
        self._stop_finished = threading.Event()
        """Set when the stop has finished."""

    def bind(  # noqa: PLR0917 - PyTriton's own order
        self,
        model_name: str,
        infer_func: Callable[..., Any] | Sequence[Callable[..., Any]],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        model_version: int = 1,
        config: ModelConfig | None = None,
        strict: bool = False,
        trace_config: list[str] | None = None,
    ) -> None:
        """Binds a callable as a model. On a connected server the model serves when this returns, else after `connect`.

        Args:
            model_name: Name of letters, digits, dots, underscores and dashes.
            infer_func: Inference callable, or one callable for each instance.
            inputs: Inputs of the model.
            outputs: Outputs of the model.
            model_version: Version of the model.
            config: Batching, queueing and other options.
            strict: Results have to match the declared outputs exactly.
            trace_config: Destination of the spans, instead of `TritonConfig.trace_config`.

        Raises:
            PyTritonValidationError: the declaration is invalid.
            PyTritonInvalidOperationError: the name and version are bound already, without regard to case.
            PyTritonBadParameterError: the configuration has an invalid value. Raised here, or when the model loads.
        """
        binding = Binding.of(model_name, infer_func, inputs, outputs, model_version, config, strict)
        self._set_tracer(trace_config)
        model = BoundModel(binding, self._is_alive_impl)
        with self._lock:
            self._model_manager.add(model)
            if self._connected:
                try:
                    self._load([model])
                except BaseException:
                    self._model_manager.remove(model)
                    raise
                self._log_endpoints([model])

    def connect(self) -> None:
        """Loads all bound models, and returns when they are ready. A second call has no effect.

        Raises:
            TimeoutError: no server is running.
        """
        with self._lock:
            if self._connected:
                return
            self._wait_for_server()
            self._mark_started()
            self._load([model for model in self._model_manager.models if not model.loaded])
            self._connected = True
            self._log_endpoints(self._model_manager.models)
            if self._url.startswith("http"):
                LOGGER.info("All calls, and a form to try them: `%s/docs`", self._url)
            LOGGER.info("(Press CTRL+C or use the command `kill -SIGINT %d` to quit)", os.getpid())

    def serve(self, monitoring_period_s: float = MONITORING_PERIOD_S) -> None:
        """Blocks until a signal, a call of `stop` or an unrecoverable error, then stops.

        SIGINT and SIGTERM let requests finish; a second signal cuts them off. Signal handlers of the script stay.

        Args:
            monitoring_period_s: Maximum interval between health checks.
        """
        self.connect()
        self._watch(monitoring_period_s)

    def stop(self) -> bool:
        """Lets requests finish, stops, and removes the workspace. Returns False if the server is stopped already."""
        with self._lock:
            if self._stopped:
                return False
            self._stopped, self._connected = True, False
            atexit.unregister(self.stop)
        try:
            self._stop_impl()
            for model in self._model_manager.models:
                model.loaded = False
            self._workspace.clean()
        finally:
            self._stop_finished.set()
        self._warn_of_verbose_log()
        return True

    def is_alive(self) -> bool:
        """True if the server and all models are serving."""
        return (
            not self._failed.is_set()
            and self._is_alive_impl()
            and all(model.is_alive() for model in self._model_manager.models)
        )

    def is_connected(self) -> bool:
        """True if `bind` loads models immediately."""
        return self._connected

    def __enter__(self) -> Self:
        if self._triton_lifecycle_policy.launch_triton_on_startup:
            self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_for_server(self) -> None:
        """Waits until models can be added to the server."""
        raise NotImplementedError

    def _load(self, models: Sequence[BoundModel]) -> None:
        """Loads the models, and returns when they are ready."""
        raise NotImplementedError

    def _is_alive_impl(self) -> bool:
        """True if the server is serving."""
        raise NotImplementedError

    def _drain_on(self, signals: Signals) -> None:
        """Lets the signals drain the server."""
        raise NotImplementedError

    def _stop_impl(self, timeout: float | None = None) -> None:
        """Stops the server, or removes its models."""
        raise NotImplementedError

    def _cache(self) -> Cache | None:
        """Returns the response cache of models with `response_cache`."""
        return None

    def _create_model(self, bound: BoundModel) -> Model[..., Any]:
        model, config = bind(bound.binding, self._unrecoverable), bound.binding.config
        return model.with_options(cache=self._cache()) if config.response_cache and not config.decoupled else model

    def _verbose_level(self) -> int:
        """Verbosity of the server's log."""
        return 0

    def _mark_started(self) -> None:
        """Notes that the server has started. The exit of the process stops it at the latest."""
        if self._stopped:
            self._stopped = False
            self._failed.clear()
            self._stop_finished.clear()
            atexit.register(self.stop)

    def _unrecoverable(self, error: BaseException) -> None:
        """Stops the server, because a callable cannot serve any more requests."""
        LOGGER.error("The server stops: an inference callable raised PyTritonUnrecoverableError: %s", error)
        self._failed.set()
        # This thread still has to send the response of its request, and the stop waits for that.
        _start_daemon(self.stop)

    def _watch(self, period: float) -> None:
        """Blocks until the server stops, which may have happened before this call."""
        replaced = [number for number, default in _DEFAULT_HANDLERS.items() if signal.getsignal(number) == default]
        with Signals(replaced).caught() as signals:
            self._drain_on(signals)
            try:
                while self.is_alive() and not signals.count:
                    time.sleep(min(_POLL_INTERVAL, max(period, 0.01)))
            except KeyboardInterrupt:
                # A signal handler of the script raised it.
                signals.handle(0, None)
            if signals.count:
                LOGGER.info("A signal was received, exiting.")
            self._stop_and_wait(signals)

    def _stop_and_wait(self, signals: Signals) -> None:
        """Stops, or waits for a stop in progress. One more signal cuts requests off."""
        stop = _start_daemon(self.stop)
        while not self._stop_finished.wait(_POLL_INTERVAL):
            if signals.count > 1:
                _start_daemon(self._stop_impl, 0.0)
                self._stop_finished.wait(_IMMEDIATE_STOP_TIMEOUT)
                return
        stop.join()

    def _set_tracer(self, trace_config: list[str] | None) -> None:
        config = getattr(self, "_config", None)
        trace_config = trace_config if trace_config is not None else getattr(config, "trace_config", None)
        if trace_config is not None and telemetry.get_telemetry_tracer() is None:
            telemetry.set_telemetry_tracer(telemetry.build_proxy_tracer_from_triton_config(trace_config))

    def _warn_of_verbose_log(self) -> None:
        if level := self._verbose_level():
            LOGGER.warning(
                "Triton Inference Server is running with enabled verbose logs (log_verbose_level=%d). "
                "It may affect inference performance.",
                level,
            )

    def _log_endpoints(self, models: Sequence[BoundModel]) -> None:
        for model in models:
            path = f"/v2/models/{model.model_name}"
            LOGGER.info("Infer function available as model: `%s`", path)
            LOGGER.info("  Status:         `GET  %s/ready`", path)
            LOGGER.info("  Model config:   `GET  %s/config`", path)
            LOGGER.info("  Inference:      `POST %s/infer`", path)


def _start_daemon(function: Callable[..., object], *args: object) -> threading.Thread:
    # Daemon threads: the exit of the process must not wait for them, because the server stops itself at exit.
    thread = threading.Thread(target=function, args=args, name="pytriton-stop", daemon=True)
    thread.start()
    return thread
