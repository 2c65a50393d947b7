"""One run of a model server: start, signals, and the way to its end."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import Future
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock import Server, Signals
from penstock.compat.kserve._metrics.metrics_page import Exposition
from penstock.compat.kserve._model.background_loop import finished
from penstock.compat.kserve._server import settings
from penstock.compat.kserve._server.admin_routes import Front
from penstock.compat.kserve._server.event_loops import Loops
from penstock.compat.kserve._server.model_binder import Workers
from penstock.compat.kserve._server.model_table import Table
from penstock.compat.kserve._server.readiness_poll import Polling
from penstock.compat.kserve._server.repository_control import Control
from penstock.compat.kserve.logging import logger

if TYPE_CHECKING:
    from penstock.compat.kserve.model_repository import ModelRepository
    from penstock.compat.kserve.model_server import ModelServer

__all__ = ["Serving"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_LOOKS_EVERY = 0.1
"""Seconds between two looks at whether a signal came."""


class Serving:
    """A server that runs, from `run` to its return.

    Args:
        owner: Whose arguments count.
    """

    def __init__(self, owner: ModelServer) -> None:
        self._owner = owner
        self._repository = owner.registered_models
        self._signals = _Signals(_SIGNALS)
        self._stopping = threading.Event()
        self._ended: Future[None] = Future()
        self._metrics = Exposition()
        self._server: Server | None = None
        self._loops = Loops(owner)
        self._table = Table(self._repository, Workers(owner, self._loops, self._metrics.environment()))
        self._front = Front(owner.dataplane, owner.model_repository_extension, self._table, self._metrics)
        self._polling = Polling(owner.dataplane, self._table)

    def run(self) -> None:
        """Serves until it is told to stop.

        Raises:
            BindError: a port cannot be listened on.
        """
        try:
            asyncio.run(self._main())
        finally:
            if not self._ended.done():
                self._ended.set_result(None)

    def follow(self) -> None:
        """Serves what the repository has now."""
        self._table.follow()

    @staticmethod
    def stop(serving: Serving | None, repository: ModelRepository) -> Future[None]:
        """Begins to stop what serves; where nothing does, only lets the models go. Given is the end of it."""
        if serving is None:
            ended: Future[None] = Future()
            _let_go(repository)
            ended.set_result(None)
            return ended
        serving._stopping.set()
        return serving._ended

    async def _main(self) -> None:
        self._loops.begins(asyncio.get_running_loop())
        with self._signals.caught():
            try:
                start = _Thread(self._start)
                while not await asyncio.to_thread(start.has_ended, _LOOKS_EVERY):
                    if self._signals.count > 1:
                        raise KeyboardInterrupt
                start.result()
                self._signals.heed(self._server, float(self._owner.grace_period))
                while not (self._signals.count or self._stopping.is_set()):
                    await asyncio.to_thread(self._stopping.wait, _LOOKS_EVERY)
            finally:
                await self._end()

    def _start(self) -> None:
        owner = self._owner
        address = self._metrics.address if self._metrics.wanted else None
        config = settings.server_config(owner, owner._message_limits, address)
        control = Control(owner.model_repository_extension, self.follow)
        # Nobody is answered before all of them serve.
        server = Server(self._front.made(), *self._table.first(), config=config, control=control)
        self._server = server
        self._table.before(server)
        server.start()
        self._metrics.begins(server.metrics_address)
        self._table.open(server)
        self._polling.start()
        # Port 0 was a wish for any.
        owner.http_port = _port(server.http_address, owner.http_port)
        owner.grpc_port = _port(server.grpc_address, owner.grpc_port)
        grpc = f", gRPC on {server.grpc_address}" if owner.enable_grpc else ""
        logger.info("Serving HTTP on %s%s, with %d worker(s)", server.http_address, grpc, owner.workers)

    async def _end(self) -> None:
        """Lets requests finish, and the models go. A second signal cuts requests off."""
        logger.info("Stopping the model server")
        self._polling.stop()
        self._table.close()
        if self._server is None:
            self._loops.close()
            return
        stop = _Thread(self._server.stop, float(self._owner.grace_period))
        while not await asyncio.to_thread(stop.has_ended, _LOOKS_EVERY):
            if self._signals.count > 1:
                _Thread(self._server.stop, 0.0)
                break
        # It is over, or hastened, and models may take their time to go.
        self._signals.heed(None)
        if cut := await asyncio.to_thread(stop.result):
            logger.warning("Not waited for any longer: %s", ", ".join(cut))
        self._loops.close()
        await asyncio.to_thread(_let_go, self._repository)
        self._metrics.close()


class _Signals(Signals):
    """Signals of which each is logged."""

    def handle(self, number: int, frame: FrameType | None) -> None:
        super().handle(number, frame)
        logger.info("Received signal %s", signal.Signals(number).name)


class _Thread:
    """A call on a thread of its own."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._result: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, args=(function, arguments), name="kserve-stop", daemon=True)
        self._thread.start()

    def has_ended(self, patience: float) -> bool:
        """Whether it ends within so many seconds."""
        self._thread.join(patience)
        return not self._thread.is_alive()

    def result(self) -> Any:
        """What it gave."""
        return self._result.result()

    def _run(self, function: Any, arguments: tuple[Any, ...]) -> None:
        try:
            self._result.set_result(function(*arguments))
        except BaseException as error:
            self._result.set_exception(error)


def _let_go(repository: ModelRepository) -> None:
    """Unloads all models, which calls their `stop`, whatever one of them raises."""
    for name in list(repository.get_models()):
        try:
            unloaded: Any = repository.unload
            finished(unloaded(name))
        except Exception:
            logger.exception("Model %s could not be unloaded", name)


def _port(address: str | None, port: int) -> int:
    return int(address.rpartition(":")[2]) if address is not None else port
