"""`Serving`: one run of a model server, with its start, signals and shutdown."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import Future
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock import Server, Signals
from penstock.compat.kserve._metrics.metrics_page import MetricsPage
from penstock.compat.kserve._model.background_loop import resolve
from penstock.compat.kserve._server import settings
from penstock.compat.kserve._server.admin_routes import AdminRoutes
from penstock.compat.kserve._server.event_loops import EventLoops
from penstock.compat.kserve._server.model_binder import ModelBinder
from penstock.compat.kserve._server.model_table import ModelTable
from penstock.compat.kserve._server.readiness_poll import ReadinessPoll
from penstock.compat.kserve._server.repository_control import RepositoryControl
from penstock.compat.kserve.logging import logger

if TYPE_CHECKING:
    from penstock.compat.kserve._server.owner import Owner
    from penstock.compat.kserve.model_repository import ModelRepository

__all__ = ["Serving"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_SIGNAL_INTERVAL = 0.1
"""Seconds between two checks for a signal."""


class Serving:
    """A running server, from `run` to its return.

    Args:
        owner: The `ModelServer` whose arguments apply.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._repository = owner.registered_models
        self._signals = _Signals(_SIGNALS)
        self._stopping = threading.Event()
        self._ended: Future[None] = Future()
        self._metrics = MetricsPage()
        self._server: Server | None = None
        self._loops = EventLoops(owner)
        self._table = ModelTable(self._repository, ModelBinder(owner, self._loops, self._metrics.environment()))
        self._routes = AdminRoutes(owner.dataplane, owner.model_repository_extension, self._table, self._metrics)
        self._polling = ReadinessPoll(owner.dataplane, self._table)

    def run(self) -> None:
        """Serves until it is stopped.

        Raises:
            BindError: a port cannot be listened on.
        """
        try:
            asyncio.run(self._main())
        finally:
            if not self._ended.done():
                self._ended.set_result(None)

    def sync(self) -> None:
        """Serves the repository's current models."""
        self._table.sync()

    @staticmethod
    def stop(serving: Serving | None, repository: ModelRepository) -> Future[None]:
        """Begins to stop a server, or unloads the models if none runs; returns the end of it."""
        if serving is None:
            ended: Future[None] = Future()
            _unload_all(repository)
            ended.set_result(None)
            return ended
        serving._stopping.set()
        return serving._ended

    async def _main(self) -> None:
        self._loops.configure(asyncio.get_running_loop())
        with self._signals.caught():
            try:
                start = _Thread(self._start)
                while not await asyncio.to_thread(start.has_ended, _SIGNAL_INTERVAL):
                    if self._signals.count > 1:
                        raise KeyboardInterrupt
                start.result()
                self._signals.set_target(self._server, float(self._owner.grace_period))
                while not (self._signals.count or self._stopping.is_set()):
                    await asyncio.to_thread(self._stopping.wait, _SIGNAL_INTERVAL)
            finally:
                await self._end()

    def _start(self) -> None:
        owner = self._owner
        address = self._metrics.address if self._metrics.wanted else None
        config = settings.server_config(owner, owner._message_limits, address)
        control = RepositoryControl(owner.model_repository_extension, self.sync)
        # Requests are accepted only once all models serve.
        server = Server(self._routes.native_model(), *self._table.initial_models(), config=config, control=control)
        self._server = server
        self._table.mark_unready(server)
        server.start()
        self._metrics.set_server_address(server.metrics_address)
        self._table.watch(server)
        self._polling.start()
        # Port 0 asked for a free port.
        owner.http_port = _port(server.http_address, owner.http_port)
        owner.grpc_port = _port(server.grpc_address, owner.grpc_port)
        grpc = f", gRPC on {server.grpc_address}" if owner.enable_grpc else ""
        logger.info("Serving HTTP on %s%s, with %d worker(s)", server.http_address, grpc, owner.workers)

    async def _end(self) -> None:
        """Drains requests and unloads the models. A second signal cuts requests off."""
        logger.info("Stopping the model server")
        self._polling.stop()
        self._table.close()
        if self._server is None:
            self._loops.close()
            return
        stop = _Thread(self._server.stop, float(self._owner.grace_period))
        while not await asyncio.to_thread(stop.has_ended, _SIGNAL_INTERVAL):
            if self._signals.count > 1:
                _Thread(self._server.stop, 0.0)
                break
        # From here on signals have no effect, so that models can unload.
        self._signals.set_target(None)
        if cut := await asyncio.to_thread(stop.result):
            logger.warning("Requests that were cut off: %s", ", ".join(cut))
        self._loops.close()
        await asyncio.to_thread(_unload_all, self._repository)
        self._metrics.close()


class _Signals(Signals):
    """Signals that are logged."""

    def handle(self, number: int, frame: FrameType | None) -> None:
        super().handle(number, frame)
        logger.info("Received signal %s", signal.Signals(number).name)


class _Thread:
    """A call on its own thread."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._result: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, args=(function, arguments), name="kserve-stop", daemon=True)
        self._thread.start()

    def has_ended(self, timeout: float) -> bool:
        """Returns whether the call ends within `timeout` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def result(self) -> Any:
        """Returns the call's result."""
        return self._result.result()

    def _run(self, function: Any, arguments: tuple[Any, ...]) -> None:
        try:
            self._result.set_result(function(*arguments))
        except BaseException as error:
            self._result.set_exception(error)


def _unload_all(repository: ModelRepository) -> None:
    """Unloads all models, which calls their `stop`; logs what one of them raises."""
    for name in list(repository.get_models()):
        try:
            unload: Any = repository.unload
            resolve(unload(name))
        except Exception:
            logger.exception("Model %s could not be unloaded", name)


def _port(address: str | None, port: int) -> int:
    return int(address.rpartition(":")[2]) if address is not None else port
