"""`TritonBase`: what serving has in common, in this process or in another one's server."""

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
from penstock.compat.pytriton._server.bound_models import BoundModel, Models
from penstock.compat.pytriton._server.lifecycle import DefaultTritonLifecyclePolicy, TritonLifecyclePolicy
from penstock.compat.pytriton.model_config import ModelConfig, Tensor
from penstock.compat.pytriton.proxy import telemetry
from penstock.compat.pytriton.utils.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MONITORING_PERIOD_S", "WAIT_FORM_MODEL_TIMEOUT_S", "TritonBase"]

LOGGER = logging.getLogger("pytriton.triton")

MONITORING_PERIOD_S = 10.0
"""How often `serve` looks whether all is well, unless told otherwise."""
WAIT_FORM_MODEL_TIMEOUT_S = 60.0
"""How long PyTriton waits for a model that it has loaded. Here a model that is loaded is ready."""

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""The handlers of signals that are replaced. A script's own stay."""

_LOOKS_EVERY = 0.1
"""Seconds between two looks at whether a signal came."""

_AT_ONCE_GRACE = 1.0
"""Seconds that a stop at once may take."""


class TritonBase:
    """Binds callables as models, and serves them until it is stopped.

    Args:
        url: Where the server is, for clients of this machine.
        workspace: A folder, or where to make one.
        triton_lifecycle_policy: When the server starts.
        access_token: What the server's protected parts ask for.
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
        self._model_manager = Models()
        self._lock = threading.RLock()
        """Held by whoever starts, connects or binds."""
        self._stopped, self._connected = True, False
        self._failed = threading.Event()
        """A callable can never answer again."""
        self._ended = threading.Event()
        """The stop is over."""

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
        """Makes a callable a model. On a server that is connected it serves when this returns, else once it connects.

        Args:
            model_name: Its name: letters, digits, dots, underscores and dashes.
            infer_func: What computes, or one callable for each instance.
            inputs: What it takes.
            outputs: What it gives.
            model_version: Its version.
            config: How requests are batched, queued and so on.
            strict: Whether results must be exactly what is declared.
            trace_config: Where spans of its requests go, in place of `TritonConfig.trace_config`.

        Raises:
            PyTritonValidationError: it is declared wrongly.
            PyTritonInvalidOperationError: there is one of that name and version; names are alike whatever their case.
            PyTritonBadParameterError: its configuration has a value that it cannot have; at once, or once it loads.
        """
        binding = Binding.of(model_name, infer_func, inputs, outputs, model_version, config, strict)
        self._trace(trace_config)
        model = BoundModel(binding, self._is_alive_impl)
        with self._lock:
            self._model_manager.add(model)
            if self._connected:
                try:
                    self._load([model])
                except BaseException:
                    self._model_manager.drop(model)
                    raise
                self._tell([model])

    def connect(self) -> None:
        """Loads all models that are bound, and returns when they are ready. A second call does nothing.

        Raises:
            TimeoutError: there is no server.
        """
        with self._lock:
            if self._connected:
                return
            self._wait_for_server()
            self._begin()
            self._load([one for one in self._model_manager.models if not one.loaded])
            self._connected = True
            self._tell(self._model_manager.models)
            if self._url.startswith("http"):
                LOGGER.info("All calls, and a form to try them: `%s/docs`", self._url)
            LOGGER.info("(Press CTRL+C or use the command `kill -SIGINT %d` to quit)", os.getpid())

    def serve(self, monitoring_period_s: float = MONITORING_PERIOD_S) -> None:
        """Blocks until a signal, `stop`, or an error that nothing can be done about; then stops.

        SIGINT and SIGTERM let requests finish; a second one does not. A script's own handlers of them stay.

        Args:
            monitoring_period_s: The longest between two looks at whether all is well.
        """
        self.connect()
        self._watch(monitoring_period_s)

    def stop(self) -> bool:
        """Lets requests finish, stops, and removes the workspace. Whether this call did it."""
        with self._lock:
            if self._stopped:
                return False
            self._stopped, self._connected = True, False
            atexit.unregister(self.stop)
        try:
            self._stop_impl()
            for one in self._model_manager.models:
                one.loaded = False
            self._workspace.clean()
        finally:
            self._ended.set()
        self._warn_of_verbose_log()
        return True

    def is_alive(self) -> bool:
        """Whether the server and all models serve."""
        return (
            not self._failed.is_set()
            and self._is_alive_impl()
            and all(model.is_alive() for model in self._model_manager.models)
        )

    def is_connected(self) -> bool:
        """Whether models that are bound are loaded at once."""
        return self._connected

    def __enter__(self) -> Self:
        if self._triton_lifecycle_policy.launch_triton_on_startup:
            self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_for_server(self) -> None:
        """Returns when the server can be given models."""
        raise NotImplementedError

    def _load(self, models: Sequence[BoundModel]) -> None:
        """Returns when the models serve."""
        raise NotImplementedError

    def _is_alive_impl(self) -> bool:
        """Whether the server serves."""
        raise NotImplementedError

    def _heed(self, signals: Signals) -> None:
        """Has them drain what serves."""
        raise NotImplementedError

    def _stop_impl(self, timeout: float | None = None) -> None:
        """Ends what `_load` began."""
        raise NotImplementedError

    def _cache(self) -> Cache | None:
        """Where a model that asks for it keeps its answers."""
        return None

    def _made(self, bound: BoundModel) -> Model[..., Any]:
        model, config = bind(bound.binding, self._unrecoverable), bound.binding.config
        return model.with_options(cache=self._cache()) if config.response_cache and not config.decoupled else model

    def _verbose_level(self) -> int:
        """How verbose the server's log is."""
        return 0

    def _begin(self) -> None:
        """Something serves from now on, and is stopped with the process at the latest."""
        if self._stopped:
            self._stopped = False
            self._failed.clear()
            self._ended.clear()
            atexit.register(self.stop)

    def _unrecoverable(self, error: BaseException) -> None:
        """A callable raised that it can never answer again."""
        LOGGER.error("The server stops: a callable cannot go on: %s", error)
        self._failed.set()
        # This thread still has to answer for its request, which the stop waits for.
        _in_thread(self.stop)

    def _watch(self, period: float) -> None:
        """Blocks until it is over. It may have been stopped elsewhere before this begins."""
        ours = [number for number, default in _DEFAULTS.items() if signal.getsignal(number) == default]
        with Signals(ours).caught() as signals:
            self._heed(signals)
            try:
                while self.is_alive() and not signals.count:
                    time.sleep(min(_LOOKS_EVERY, max(period, 0.01)))
            except KeyboardInterrupt:
                # Of a handler of the script's own.
                signals.handle(0, None)
            if signals.count:
                LOGGER.info("A signal was received, exiting.")
            self._stop_and_wait(signals)

    def _stop_and_wait(self, signals: Signals) -> None:
        """Stops, or waits for the stop that is under way; one more signal ends it at once."""
        stop = _in_thread(self.stop)
        while not self._ended.wait(_LOOKS_EVERY):
            if signals.count > 1:
                _in_thread(self._stop_impl, 0.0)
                self._ended.wait(_AT_ONCE_GRACE)
                return
        stop.join()

    def _trace(self, said: list[str] | None) -> None:
        config = getattr(self, "_config", None)
        said = said if said is not None else getattr(config, "trace_config", None)
        if said is not None and telemetry.get_telemetry_tracer() is None:
            telemetry.set_telemetry_tracer(telemetry.build_proxy_tracer_from_triton_config(said))

    def _warn_of_verbose_log(self) -> None:
        if level := self._verbose_level():
            LOGGER.warning(
                "Triton Inference Server is running with enabled verbose logs (log_verbose_level=%d). "
                "It may affect inference performance.",
                level,
            )

    def _tell(self, models: Sequence[BoundModel]) -> None:
        for one in models:
            path = f"/v2/models/{one.model_name}"
            LOGGER.info("Infer function available as model: `%s`", path)
            LOGGER.info("  Status:         `GET  %s/ready`", path)
            LOGGER.info("  Model config:   `GET  %s/config`", path)
            LOGGER.info("  Inference:      `POST %s/infer`", path)


def _in_thread(function: Callable[..., object], *args: object) -> threading.Thread:
    # What still runs when the process ends is not waited for here: the server sees to its own end.
    thread = threading.Thread(target=function, args=args, name="pytriton-stop", daemon=True)
    thread.start()
    return thread
