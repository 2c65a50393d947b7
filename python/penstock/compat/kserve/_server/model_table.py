"""`ModelTable`: the served models, kept in step with the repository and with the models' readiness."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from penstock import Model as Native
from penstock import NotFound, Server, Unavailable
from penstock.compat.kserve._model.base import readiness_listeners
from penstock.compat.kserve._model.health import assigned_ready, reports_by_assignment
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.model_repository import ModelRepository

if TYPE_CHECKING:
    from penstock.compat.kserve._server.model_binder import ModelBinder
    from penstock.compat.kserve.model import BaseKServeModel

__all__ = ["ModelTable"]


class ModelTable:
    """Serves the models of a repository.

    Args:
        repository: The repository.
        binder: Creates the models' Penstock models.
    """

    def __init__(self, repository: ModelRepository, binder: ModelBinder) -> None:
        self._repository, self._binder = repository, binder
        self._server: Server | None = None
        self._served: dict[str, Any] = {}
        self._ready_when_bound: dict[str, bool] = {}
        self._shared: list[str] = []
        self._ready: dict[str, bool] = {}
        self._lock = threading.RLock()
        """Held while served models change. Reentrant: a model may load another while it is bound."""

    @property
    def served(self) -> dict[str, Any]:
        """The served models by name."""
        return dict(self._served)

    def initial_models(self) -> list[Native[..., Any]]:
        """Returns the Penstock models with which the server starts."""
        models = dict(self._repository.get_models())
        shared = self._binder.shared_models(models) or ()
        self._shared = [one.name for one in shared]
        bound = self._bind(models)
        self._set_served(models)
        return [*bound, *shared]

    def mark_unready(self, server: Server) -> None:
        """Marks the models that are not ready, before the server starts."""
        for name, ready in self._ready_when_bound.items():
            if not ready:
                server.set_ready(name, False)
                self._ready[name] = False

    def watch(self, server: Server) -> None:
        """Follows the repository and the models' readiness from now on, on a started server."""
        self._server = server
        if isinstance(self._repository, ModelRepository):
            self._repository.watch(self._repository_changed)
        readiness_listeners.append(self._ready_assigned)
        # Catch up on changes between `initial_models` and the listeners.
        self.sync()
        for name, model in self.served.items():
            self.set_ready(name, assigned_ready(model))

    def close(self) -> None:
        """Stops following: the server stops."""
        with self._lock:
            self._server = None
        if self._ready_assigned in readiness_listeners:
            readiness_listeners.remove(self._ready_assigned)
            if isinstance(self._repository, ModelRepository):
                self._repository.unwatch(self._repository_changed)

    def sync(self) -> None:
        """Serves the repository's current models; returns when removed models have completed their requests."""
        with self._lock:
            removed = self._replace_served()
        for name in removed:
            self._binder.wait_until_drained(name)

    def _replace_served(self) -> list[str]:
        server = self._server
        if server is None:
            return []
        current = dict(self._repository.get_models())
        removed = [name for name in self._served if name not in current]
        new = {name: model for name, model in current.items() if self._served.get(name) is not model}
        if not removed and not new:
            return []
        shared = self._binder.shared_models(current)
        server.add(*self._bind(new), *(shared or ()), replace=True)
        self._set_served(new)
        for name in new:
            self.set_ready(name, assigned_ready(current[name]))
        for name in removed:
            del self._served[name]
        if shared is not None:
            removed += [name for name in self._shared if all(name != one.name for one in shared)]
            self._shared = [one.name for one in shared]
        for name in removed:
            self._ready.pop(name, None)
            server.remove(name)
        return removed

    def set_ready(self, name: str, ready: bool) -> None:
        """Sets a model's readiness in all protocols."""
        with self._lock:
            server = self._server
            if server is None or name not in self._served or self._ready.get(name, True) is ready:
                return
            try:
                if ready and self._binder.needs_rebinding(self._served[name], self._ready_when_bound[name]):
                    server.add(*self._bind({name: self._served[name]}), replace=True)
                server.set_ready(name, ready)
            except (NotFound, Unavailable):
                return
            except Exception:
                # Not raised: the code that assigns `ready` did nothing wrong.
                logger.exception("Model %s is ready, but cannot be served", name)
                return
            self._ready[name] = ready
            logger.info("Model %s is %s", name, "ready" if ready else "not ready")

    def polled_models(self) -> list[str]:
        """Returns the models whose readiness must be polled, since assignments do not report it."""
        return [name for name, model in self.served.items() if not reports_by_assignment(self._repository, model)]

    def _repository_changed(self) -> None:
        """Follows the repository: at once, or on a thread if called on an event loop, which must not block."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.sync()
        else:
            loop.run_in_executor(None, self._sync_or_log)

    def _sync_or_log(self) -> None:
        try:
            self.sync()
        except Exception:
            logger.exception("The models of the repository cannot be served")

    def _ready_assigned(self, model: BaseKServeModel, ready: bool) -> None:
        for name, served in self.served.items():
            if served is model and reports_by_assignment(self._repository, model):
                self.set_ready(name, ready)

    def _bind(self, models: dict[str, Any]) -> list[Native[..., Any]]:
        self._ready_when_bound.update({name: assigned_ready(model) for name, model in models.items()})
        return [self._binder.bind(model, name) for name, model in models.items()]

    def _set_served(self, models: dict[str, Any]) -> None:
        """Records newly served models, which are ready until `set_ready`."""
        self._served.update(models)
        for name in models:
            self._ready.pop(name, None)
