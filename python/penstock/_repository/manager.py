"""`ModelManager`: the models of a server, from its sources; changes them at polls, reloads and clients' requests.

A version serves once all its instances are built and have computed the model's warm-up samples. The version that it
replaces finishes its requests and ends. A failure is reported in the index, and changes nothing of what serves.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from penstock._repository import add, replace_all
from penstock._repository.control import carry_out, respond
from penstock._repository.initial import define, initial_offers
from penstock._repository.loader import Loader
from penstock._repository.model_state import ModelState
from penstock._repository.model_table import ModelTable
from penstock._repository.sources import Folder, GivenModels, Offer, Source, Sources
from penstock._spec.versions import VersionPolicy

if TYPE_CHECKING:
    from penstock import _core
    from penstock._repository.control import Control
    from penstock._spec.definition import Definition
    from penstock.config import ServerConfig

__all__ = ["ModelManager"]

_GARBAGE_INTERVAL = 0.5
"""Seconds between two checks whether replaced versions have ended."""

_STOP_TIMEOUT = 5.0
"""Seconds that a load under way has to end when the server stops."""


class ModelManager:
    """Loads and unloads the models of a server.

    Args:
        given: Definitions that the server was given. They take precedence over folders.
        config: The server's settings, which name the folders.
        may_be_empty: Whether the server may start without models.
        control: Loads and unloads models for clients, in place of the folders.
    """

    def __init__(
        self,
        given: Iterable[Definition],
        config: ServerConfig,
        *,
        may_be_empty: bool = False,
        control: Control | None = None,
    ) -> None:
        policy = VersionPolicy.parse(config.version_policy)
        self._sources = Sources(GivenModels(given), [Folder(path, policy) for path in config.repository])
        self.table = ModelTable()
        self._config, self._control, self._may_be_empty = config, control, may_be_empty
        self._loader = Loader(self.table, self._sources, config)
        self._changes = threading.Lock()
        """Held during each change of what serves, by the manager's thread or by a caller of the server."""
        self._thread: threading.Thread | None = None

    def offers(self) -> dict[str, Offer]:
        """The models that the server starts with, by name. Imports none of them.

        Raises:
            StartupError: a folder cannot be read, two models have one name, or a model of `load_models` is unknown.
        """
        sources: list[Source] = [self._sources.given, *self._sources.folders]
        return initial_offers(sources, self._config, required=not self._may_be_empty)

    def initial_definitions(self) -> list[Definition]:
        """The definitions that the server starts with.

        Raises:
            LoadError: a model cannot be read; `__cause__` is its own exception.
            StartupError: a folder cannot be read, two models have one name, or a model of `load_models` is unknown.
        """
        definitions = []
        for name, offer in self.offers().items():
            versions = define(name, offer)
            serving = {version.version: offer.versions[version.version].fingerprint for version in versions}
            self.table.states[name] = ModelState(serving)
            for version in versions:
                definitions += [version, *([version.explainer] if version.explainer else [])]
        return definitions

    def run(self, models: _core.ModelRegistry) -> None:
        """Manages the models of a server that has started, on a separate thread."""
        self.table.connect(models)
        if self._config.model_control == "none":
            return
        self._loader.announce()
        self._start_thread()

    def reload(self, read: Callable[[], Iterable[Definition]], folders: Iterable[str] = ()) -> list[str]:
        """Replaces the given definitions by those that `read` returns. See `Server.reload`."""
        with self._changes:
            names = replace_all.replace_given(self.table, self._sources, read, tuple(folders))
            if self._config.model_control != "explicit" and self._sources.folders:
                self._loader.poll(load=True)
            self._start_thread()
        return names

    def add(
        self,
        define_all: Callable[[list[Definition]], Iterable[Definition]],
        replaced: Collection[tuple[str, str]] = frozenset(),
    ) -> list[str]:
        """Adds the definitions that `define_all` returns for the present ones. See `Server.add`."""
        with self._changes:
            names = add.add(self.table, self._sources, define_all, replaced)
            if replaced:
                self._start_thread()
            return names

    def remove(self, name: str, version: str | None) -> None:
        """Removes a given model. See `Server.remove`."""
        with self._changes:
            add.remove(self.table, self._sources, name, version)
            self._start_thread()

    def stop(self, timeout: float | None = None) -> list[str]:
        """Stops taking commands, and waits up to 5 seconds for the load under way. Ignores `timeout`."""
        del timeout
        if self.table.started:
            self.table.models.close()
        if self._changes.acquire(timeout=_STOP_TIMEOUT):
            self._changes.release()
        return self.stuck()

    def stuck(self) -> list[str]:
        """The repository, if a load has not ended."""
        return ["the model repository"] if self._changes.locked() else []

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="penstock-repository", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        models, control = self.table.models, self._config.model_control
        interval = self._config.poll_interval
        next_poll = time.monotonic() + interval
        while not models.closed:
            wait = max(0.0, next_poll - time.monotonic())
            command = models.next_command(min(wait, _GARBAGE_INTERVAL) if self.table.has_garbage else wait)
            if command is not None and self._control is not None:
                # Without the lock: the control calls `Server.add` and `Server.remove`, which take it.
                carry_out(self._control, command, takes_files=self._config.load_files)
                command = None
            with self._changes:
                if command is not None:
                    self._carry_out(command)
                elif not models.closed and time.monotonic() >= next_poll:
                    if control != "none":
                        self._loader.poll(load=control == "poll")
                    next_poll = time.monotonic() + interval
                self.table.collect_garbage()

    def _carry_out(self, command: _core.RepositoryCommand) -> None:
        name, load = command.model, command.load
        respond(command, lambda: self._loader.unload(name) if load is None else self._loader.load(name, *load))
        if load is not None and load[1]:
            # A failed load holds the uploaded files until its traceback is collected.
            gc.collect()
