"""Event loops of a server: executor, exception handler and model engines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from penstock import SignatureError
from penstock.compat.kserve._model import background_loop
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.utils.utils import cpu_count

if TYPE_CHECKING:
    from penstock.compat.kserve._server.owner import Owner

__all__ = ["EventLoops", "LoopSetup"]


class EventLoops:
    """Sets up the event loops of a server.

    Args:
        owner: The `ModelServer` whose arguments apply.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._with_engine: list[Any] = []
        self._background_engines: list[Future[None]] = []

    def configure(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sets a loop's exception handler and executor from the server's arguments."""
        owner = self._owner
        loop.set_exception_handler(owner._custom_exception_handler or owner.default_exception_handler)
        size = owner.max_asyncio_workers or min(32, cpu_count() + 4)
        loop.set_default_executor(ThreadPoolExecutor(size, thread_name_prefix="kserve-executor"))

    def setup_for(self, models: Mapping[str, Any]) -> LoopSetup:
        """Returns the set-up of the loop of some models' requests.

        Raises:
            SignatureError: a model has an engine, and is to be sent to workers.
        """
        return LoopSetup(self, self.new_engines(models))

    def run_in_background(self, model: Any, name: str) -> None:
        """Runs the engine of a plain model on the background loop, since its requests need no loop.

        Raises:
            SignatureError: the model has an engine, and is to be sent to workers.
        """
        for one in self.new_engines({name: model}):
            engine = asyncio.run_coroutine_threadsafe(self.run_engine(one), background_loop.loop())
            self._background_engines.append(engine)

    def close(self) -> None:
        """Ends the engines of `run_in_background`."""
        for engine in self._background_engines:
            engine.cancel()

    def new_engines(self, models: Mapping[str, Any]) -> list[Any]:
        """Returns the models whose engine has to be started, and marks it as started.

        Raises:
            SignatureError: a model has an engine, and is to be sent to workers.
        """
        found = []
        for name, model in models.items():
            if not getattr(model, "engine", False) or any(model is one for one in self._with_engine):
                continue
            if self._owner.workers > 1:
                raise SignatureError(
                    f"model {name!r} has an engine, which runs on the one event loop of its requests: "
                    "serve with workers=1"
                )
            self._with_engine.append(model)
            found.append(model)
        return found

    def engines_ended(self, models: Sequence[Any]) -> None:
        """Marks the models' engines as ended, so that they start again if the models are served again."""
        self._with_engine = [one for one in self._with_engine if all(one is not other for other in models)]

    async def run_engine(self, model: Any) -> None:
        """Runs a model's engine; stops the server if it fails."""
        try:
            await model.start_engine()
        except Exception:
            logger.exception("The engine of model %s failed, the server stops", model.name)
            self._owner.stop()


class LoopSetup:
    """Sets up the loop of some models' requests, and runs their engines on it.

    Args:
        loops: The server's loops.
        models: The models whose engines run there.
    """

    def __init__(self, loops: EventLoops, models: Sequence[Any]) -> None:
        self._loops, self._models = loops, [*models]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engines: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Sets up the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loops.configure(self._loop)
        self._start_engines(self._models)

    def add(self, models: Sequence[Any]) -> None:
        """Runs the engines of more models on the loop; called on any thread, after `begin`."""
        self._models += models
        if models and self._loop is not None:
            self._loop.call_soon_threadsafe(self._start_engines, models)

    async def end(self) -> None:
        """Ends the engines, after the last request."""
        for engine in self._engines:
            engine.cancel()
        if self._engines:
            await asyncio.wait(self._engines)
        self._loops.engines_ended(self._models)

    def _start_engines(self, models: Sequence[Any]) -> None:
        self._engines += [asyncio.create_task(self._loops.run_engine(model)) for model in models]
