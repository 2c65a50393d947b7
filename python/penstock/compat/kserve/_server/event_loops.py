"""What a server does to event loops: its executor, its handler of exceptions, and engines that run beside models."""

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
    from penstock.compat.kserve.model_server import ModelServer

__all__ = ["LoopSetUp", "Loops"]


class Loops:
    """Sets up the event loops of a server.

    Args:
        owner: Whose arguments count.
    """

    def __init__(self, owner: ModelServer) -> None:
        self._owner = owner
        self._with_engine: list[Any] = []
        self._beside: list[Future[None]] = []

    def begins(self, loop: asyncio.AbstractEventLoop) -> None:
        """Makes a loop as the server's arguments say."""
        owner = self._owner
        loop.set_exception_handler(owner._custom_exception_handler or owner.default_exception_handler)
        size = owner.max_asyncio_workers or min(32, cpu_count() + 4)
        loop.set_default_executor(ThreadPoolExecutor(size, thread_name_prefix="kserve-executor"))

    def of(self, models: Mapping[str, Any]) -> LoopSetUp:
        """What is done to the loop of some models' requests.

        Raises:
            SignatureError: one of them has an engine, and is to be sent to workers.
        """
        return LoopSetUp(self, self.with_engines(models))

    def beside(self, model: Any, name: str) -> None:
        """Runs the engine of a model whose requests need no event loop on one of its own.

        Raises:
            SignatureError: it is to be sent to workers.
        """
        for one in self.with_engines({name: model}):
            self._beside.append(asyncio.run_coroutine_threadsafe(self.engine(one), background_loop.loop()))

    def close(self) -> None:
        """Ends what `beside` began."""
        for engine in self._beside:
            engine.cancel()

    def with_engines(self, models: Mapping[str, Any]) -> list[Any]:
        """Those whose engines do not run yet, and are to.

        Raises:
            SignatureError: one of them has an engine, and is to be sent to workers.
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

    def ended(self, models: Sequence[Any]) -> None:
        """The engines of these no longer run; they may again, where the models are served anew."""
        self._with_engine = [one for one in self._with_engine if all(one is not other for other in models)]

    async def engine(self, model: Any) -> None:
        """Runs a model's engine; the server stops if it fails."""
        try:
            await model.start_engine()
        except Exception:
            logger.exception("The engine of model %s failed, the server stops", model.name)
            self._owner.stop()


class LoopSetUp:
    """Sets up the loop of some models' requests, once it runs, and ends what it began.

    Args:
        loops: Of the server.
        models: Those whose engines run there.
    """

    def __init__(self, loops: Loops, models: Sequence[Any]) -> None:
        self._loops, self._models = loops, [*models]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engines: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Called on the loop."""
        self._loop = asyncio.get_running_loop()
        self._loops.begins(self._loop)
        self._run(self._models)

    def add(self, models: Sequence[Any]) -> None:
        """Runs the engines of more models there; called on any thread, once the loop has begun."""
        self._models += models
        if models and self._loop is not None:
            self._loop.call_soon_threadsafe(self._run, models)

    async def end(self) -> None:
        """Called on the loop when the last request is answered."""
        for engine in self._engines:
            engine.cancel()
        if self._engines:
            await asyncio.wait(self._engines)
        self._loops.ended(self._models)

    def _run(self, models: Sequence[Any]) -> None:
        self._engines += [asyncio.create_task(self._loops.engine(model)) for model in models]
