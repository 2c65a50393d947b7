"""What a server does to event loops: its executor, its handler of exceptions, and engines that run beside models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from penstock import SignatureError
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

    def begins(self, loop: asyncio.AbstractEventLoop) -> None:
        """Makes a loop as the server's arguments say."""
        owner = self._owner
        loop.set_exception_handler(owner._custom_exception_handler or owner.default_exception_handler)
        size = owner.max_asyncio_workers or min(32, cpu_count() + 4)
        loop.set_default_executor(ThreadPoolExecutor(size, thread_name_prefix="kserve-executor"))

    def of(self, model: Any, name: str) -> LoopSetUp:
        """What is done to the loop of a model's requests.

        Raises:
            SignatureError: the model has an engine, and is to be sent to workers.
        """
        if not getattr(model, "engine", False) or any(model is one for one in self._with_engine):
            return LoopSetUp(self)
        if self._owner.workers > 1:
            raise SignatureError(
                f"model {name!r} has an engine, which runs on the one event loop of its requests: serve with workers=1"
            )
        self._with_engine.append(model)
        return LoopSetUp(self, model)

    def of_all(self, models: Iterable[Any]) -> LoopSetUp:
        """What is done to the loop that several models share: all their engines run there."""
        with_engine = [one for one in models if getattr(one, "engine", False)]
        self._with_engine += with_engine
        return LoopSetUp(self, *with_engine)

    async def engine(self, model: Any) -> None:
        """Runs a model's engine; the server stops if it fails."""
        try:
            await model.start_engine()
        except Exception:
            logger.exception("The engine of model %s failed, the server stops", model.name)
            self._owner.stop()


class LoopSetUp:
    """Sets up the loop of models' requests, once it runs, and ends what it began.

    Args:
        loops: Of the server.
        models: The models whose engines run there.
    """

    def __init__(self, loops: Loops, *models: Any) -> None:
        self._loops, self._models = loops, models
        self._engines: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Called on the loop."""
        self._loops.begins(asyncio.get_running_loop())
        self._engines = [asyncio.create_task(self._loops.engine(model)) for model in self._models]

    async def end(self) -> None:
        """Called on the loop when the last request is answered."""
        for engine in self._engines:
            engine.cancel()
        if self._engines:
            await asyncio.wait(self._engines)
