"""The table of what serves: kept as the repository has it, and as the models say of their readiness."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from penstock import Model as Native
from penstock import NotFound, Server, Unavailable
from penstock.compat.kserve._model.awaitable_bool import listeners
from penstock.compat.kserve._model.health import says, tells_by_itself
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.model_repository import ModelRepository

if TYPE_CHECKING:
    from penstock.compat.kserve._server.model_binder import Workers
    from penstock.compat.kserve.model import BaseKServeModel

__all__ = ["Table"]


class Table:
    """Has a server serve the models of a repository.

    Args:
        repository: The repository.
        workers: Makes Penstock models of them.
    """

    def __init__(self, repository: ModelRepository, workers: Workers) -> None:
        self._repository, self._workers = repository, workers
        self._server: Server | None = None
        self._served: dict[str, Any] = {}
        self._bound_when_ready: dict[str, bool] = {}
        self._common: list[str] = []
        self._ready: dict[str, bool] = {}
        self._turn = threading.RLock()
        """Held by whoever changes what serves. A model that loads another while it is bound has it already."""

    @property
    def served(self) -> dict[str, Any]:
        """What serves now."""
        return dict(self._served)

    def first(self) -> list[Native[..., Any]]:
        """What the server is to begin with."""
        models = dict(self._repository.get_models())
        shared = self._workers.shared(models) or ()
        self._common = [one.name for one in shared]
        made = self._made(models)
        self._adopt(models)
        return [*made, *shared]

    def before(self, server: Server) -> None:
        """Tells a server that is about to begin which models are not ready."""
        for name, ready in self._bound_when_ready.items():
            if not ready:
                server.set_ready(name, False)
                self._ready[name] = False

    def open(self, server: Server) -> None:
        """Follows the repository from now on, on a server that has begun."""
        self._server = server
        if isinstance(self._repository, ModelRepository):
            self._repository.watch(self._changed)
        listeners.append(self._heard)
        # What was said between both.
        self.follow()
        for name, model in self.served.items():
            self.tell(name, says(model))

    def close(self) -> None:
        """Lets things be as they are: the server stops."""
        with self._turn:
            self._server = None
        if self._heard in listeners:
            listeners.remove(self._heard)
            if isinstance(self._repository, ModelRepository):
                self._repository.unwatch(self._changed)

    def follow(self) -> None:
        """Makes what serves what the repository has. What is gone has answered its last request when this returns."""
        with self._turn:
            gone = self._followed()
        for name in gone:
            self._workers.wait_for_end_of(name)

    def _followed(self) -> list[str]:
        server = self._server
        if server is None:
            return []
        wanted = dict(self._repository.get_models())
        gone = [name for name in self._served if name not in wanted]
        new = {name: model for name, model in wanted.items() if self._served.get(name) is not model}
        if not gone and not new:
            return []
        shared = self._workers.shared(wanted)
        server.add(*self._made(new), *(shared or ()), replace=True)
        self._adopt(new)
        for name in new:
            self.tell(name, says(wanted[name]))
        for name in gone:
            del self._served[name]
        if shared is not None:
            gone += [name for name in self._common if all(name != one.name for one in shared)]
            self._common = [one.name for one in shared]
        for name in gone:
            self._ready.pop(name, None)
            server.remove(name)
        return gone

    def tell(self, name: str, ready: bool) -> None:
        """Has all protocols say of a model whether it is ready."""
        with self._turn:
            server = self._server
            if server is None or name not in self._served or self._ready.get(name, True) is ready:
                return
            try:
                if ready and self._workers.is_to_be_bound_anew(self._served[name], self._bound_when_ready[name]):
                    server.add(*self._made({name: self._served[name]}), replace=True)
                server.set_ready(name, ready)
            except (NotFound, Unavailable):
                return
            except Exception:
                # Whoever assigns `ready` did nothing wrong.
                logger.exception("Model %s is ready, but cannot be served", name)
                return
            self._ready[name] = ready
            logger.info("Model %s is %s", name, "ready" if ready else "not ready")

    def asked(self) -> list[str]:
        """The models that have to be asked whether they are ready, since no assignment says so."""
        return [name for name, model in self.served.items() if not tells_by_itself(self._repository, model)]

    def _changed(self) -> None:
        """Follows the repository: at once, unless this is an event loop, which may not be held up."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.follow()
        else:
            loop.run_in_executor(None, self._follow_or_log)

    def _follow_or_log(self) -> None:
        try:
            self.follow()
        except Exception:
            logger.exception("What the repository has cannot be served")

    def _heard(self, model: BaseKServeModel, ready: bool) -> None:
        for name, served in self.served.items():
            if served is model and tells_by_itself(self._repository, model):
                self.tell(name, ready)

    def _made(self, models: dict[str, Any]) -> list[Native[..., Any]]:
        self._bound_when_ready.update({name: says(model) for name, model in models.items()})
        return [self._workers.bind(model, name) for name, model in models.items()]

    def _adopt(self, models: dict[str, Any]) -> None:
        """Takes note of what serves since now; all that is new is ready until it is told otherwise."""
        self._served.update(models)
        for name in models:
            self._ready.pop(name, None)
