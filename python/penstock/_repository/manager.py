"""Keeps a server's models as its sources have them: at the start, by looking now and then, or when told.

A version serves from the moment at which all its instances are built and have answered the model's
warm-up samples; what it replaces finishes what it has and ends. Whatever fails is said in the index, and
changes nothing of what serves.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._repository import add, failures, replace_all, uploads
from penstock._repository.control import answered, carry_out
from penstock._repository.initial import define, wanted
from penstock._repository.model_state import Known, Ready
from penstock._repository.overrides import Overrides
from penstock._repository.sources import Folder, Given, Offer, joined
from penstock._spec.versions import VersionPolicy
from penstock.errors import AlreadyExists, InvalidInput, NotFound, PenstockError, Unavailable

if TYPE_CHECKING:
    from penstock import _core
    from penstock._repository.control import Control
    from penstock._spec.definition import Definition
    from penstock.config import ServerConfig

__all__ = ["Keeper"]

_log = logging.getLogger("penstock.repository")

_GARBAGE_EVERY = 0.5
"""Seconds between two looks at whether what was replaced has ended."""

_STOP_WITHIN = 5.0
"""Seconds that a load under way has to end when the server stops."""


class Keeper:
    """Loads and unloads the models of a server.

    Args:
        given: Models that come first; of two of one name, the first is meant.
        folders: Where others come from.
        config: The server's settings.
        may_be_empty: Whether it may begin without models.
        control: Who loads and unloads models for clients, in place of the folders.
    """

    @classmethod
    def of(
        cls,
        given: Iterable[Definition],
        config: ServerConfig,
        *,
        may_be_empty: bool = False,
        control: Control | None = None,
    ) -> Keeper:
        """The keeper of a server that was given some models, and whose settings name folders of others."""
        policy = VersionPolicy.parse(config.version_policy)
        return cls(Given(given), [Folder(path, policy) for path in config.repository], config, may_be_empty, control)

    def __init__(
        self,
        given: Given,
        folders: Iterable[Folder],
        config: ServerConfig,
        may_be_empty: bool = False,
        control: Control | None = None,
    ) -> None:
        self._control = control
        self.given, self.folders, self._config = given, [*folders], config
        self._may_be_empty = may_be_empty
        self._policy = VersionPolicy.parse(config.version_policy)
        self._known: dict[str, Known] = {}
        self._one_at_a_time = threading.Lock()
        """Held by whoever changes what serves: the thread of commands and looks, and those that renew."""
        self._models: _core.Models | None = None
        self._replaced = 0
        """Versions that were taken out, and whose code may still be there."""
        self._thread: threading.Thread | None = None
        self.attached: frozenset[str] = frozenset()
        """Names of models that other processes have attached, and which are not the keeper's to add."""

    def has(self, name: str) -> bool:
        """Whether there is a model of that name, or one that could be loaded."""
        return name in self._known

    def at_start(self) -> list[Definition]:
        """What the server is to be made with.

        Raises:
            LoadError: a model cannot be read; `__cause__` is its own exception.
            StartupError: a folder cannot be read, two models have one name, or one that is asked for is not there.
        """
        found = []
        for name, offer in wanted([self.given, *self.folders], self._config, required=not self._may_be_empty).items():
            definitions = define(name, offer)
            self._known[name] = Known({one.version: offer.versions[one.version].mark for one in definitions})
            for one in definitions:
                found += [one, *([one.explainer] if one.explainer else [])]
        return found

    def run(self, models: _core.Models) -> None:
        """Goes on with a server that has started, on a thread of its own."""
        self._models = models
        if self._config.model_control == "none":
            return
        self._announce(self._offers())
        self._begin()

    def known(self, name: str) -> Known:
        """What has been done about a model."""
        return self._known.setdefault(name, Known())

    def renew(self, read: Callable[[], Iterable[Definition]], places: Iterable[str] = ()) -> list[str]:
        """Serves what `read` gives instead of what the server was given. See `Server.reload`."""
        with self._one_at_a_time:
            names = replace_all.renew(self, self._running, read, tuple(places))
            if self._config.model_control != "explicit" and self.folders:
                self._look(polls=True)
            self._begin()
        return names

    def add(
        self,
        joined: Callable[[list[Definition]], Iterable[Definition]],
        replaced: Collection[tuple[str, str]] = frozenset(),
    ) -> list[str]:
        """Serves what `joined` makes of the definitions that it is given, beside them. See `Server.add`."""
        with self._one_at_a_time:
            names = add.add(self, self._running, joined, replaced)
            if replaced:
                self._begin()
            return names

    def remove(self, name: str, version: str | None) -> None:
        """Serves a model no longer that the server was given. See `Server.remove`."""
        with self._one_at_a_time:
            add.remove(self, self._running, name, version)
            self._begin()

    def stop(self, timeout: float | None = None) -> list[str]:
        """Takes no more commands, and waits a few seconds, whatever the timeout, until the load under way has ended."""
        del timeout
        if self._models is not None:
            self._models.close()
        # Whoever loads has the lock, on whatever thread.
        if self._one_at_a_time.acquire(timeout=_STOP_WITHIN):
            self._one_at_a_time.release()
        return self.stuck()

    def stuck(self) -> list[str]:
        """Named if a load has not ended."""
        return ["the model repository"] if self._one_at_a_time.locked() else []

    @property
    def _running(self) -> _core.Models:
        assert self._models is not None, "the server has not started"
        return self._models

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="penstock-repository", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        control = self._config.model_control
        every = self._config.poll_interval
        next_look = time.monotonic() + every
        while not self._running.closed:
            wait = max(0.0, next_look - time.monotonic())
            command = self._running.next(min(wait, _GARBAGE_EVERY) if self._replaced else wait)
            if command is not None and self._control is not None:
                # It takes its turn for each change by itself.
                carry_out(self._control, command, takes_files=self._config.load_files)
                command = None
            with self._one_at_a_time:
                if command is not None:
                    self._carry_out(command)
                elif not self._running.closed and time.monotonic() >= next_look:
                    if control != "none":
                        self._look(polls=control == "poll")
                    next_look = time.monotonic() + every
                self._collect()

    def _collect(self) -> None:
        """Frees the code of what was replaced, once it has ended: a module and its functions hold each other."""
        if self._replaced and (leaving := self._running.leaving()) < self._replaced:
            gc.collect()
            self._replaced = leaving

    def _carry_out(self, command: _core.Command) -> None:
        name, load = command.model, command.load
        answered(command, lambda: self._unload(name) if load is None else self._load(name, *load))
        if load is not None and load[1]:
            # What failed holds the files that were sent until its traceback is collected.
            gc.collect()

    def check_free(self, name: str) -> None:
        """Refuses to change a model that is not the keeper's.

        Raises:
            AlreadyExists: another process has attached it.
        """
        if name in self.attached:
            raise AlreadyExists(f"model '{name}' is attached by another process, and only that can take it away")

    def claim(self, name: str) -> None:
        """Makes a name the keeper's.

        Raises:
            AlreadyExists: another process has attached a model of that name.
        """
        is_known = name in self._known
        # First said, then looked: whoever attaches does so too, and one of both sees the other.
        self.known(name)
        try:
            self.check_free(name)
        except AlreadyExists:
            if not is_known:
                del self._known[name]
            raise

    def _look(self, *, polls: bool) -> None:
        try:
            offers = self._offers()
        except OSError as error:
            _log.warning("the model repository cannot be read, what serves goes on: %s", error)
            return
        try:
            self._announce(offers)
            if polls:
                self._follow(offers)
        except BaseException:
            _log.exception("looking at the model repository failed")

    def _follow(self, offers: Mapping[str, Offer]) -> None:
        for name, offer in offers.items():
            try:
                overrides = Overrides.parse(offer.config)
                chosen = (overrides.policy or offer.policy).choose(offer.versions)
            except PenstockError as error:
                self._refused(name, offer, str(error))
                continue
            known = self.known(name)
            known.failed = {version: why for version, why in known.failed.items() if version in chosen}
            new = [one for one in chosen if not known.is_done(one, offer.versions[one].mark)]
            if name in self.attached:
                self._refused(name, offer, "another process has attached a model of that name")
            elif new or known.marks.keys() - set(chosen):
                self._bring(name, offer, chosen, new, overrides)
        for name in self._known.keys() - offers.keys():
            self.swap(name, [], [])
            self.forget(name)

    def _load(self, name: str, config: str | None, files: Mapping[str, bytes]) -> None:
        if files and not self._config.load_files:
            raise failures.no_files()
        self.check_free(name)
        offers = self._offers()
        self._announce(offers)
        # Files that are sent stand for all that the repository has of the model, its configuration too.
        offer = uploads.offer(name, files, self._policy) if files else offers.get(name)
        if offer is None:
            raise NotFound(f"unknown model '{failures.printable(name)}'")
        overrides = Overrides.parse(config).over(Overrides.parse(offer.config))
        chosen = (overrides.policy or offer.policy).choose(offer.versions)
        if not chosen:
            policy = overrides.policy or offer.policy
            there = ", ".join(offer.versions)
            raise InvalidInput(f"model '{name}' has no version of its version policy {policy}, it has {there}")
        self._bring(name, offer, chosen, chosen, overrides, explicit=True)

    def _unload(self, name: str) -> None:
        self.check_free(name)
        if name not in self._known and name not in self._offers():
            raise NotFound(f"unknown model '{failures.printable(name)}'")
        known = self.known(name)
        known.unloaded = [*known.marks] or known.unloaded
        known.failed.clear()
        self.swap(name, [], [])
        self.describe(name)
        _log.info("model '%s' is unloaded", name)

    def _bring(
        self,
        name: str,
        offer: Offer,
        chosen: list[str],
        new: list[str],
        overrides: Overrides,
        *,
        explicit: bool = False,
    ) -> None:
        """Makes `chosen` the versions that serve; of these `new` are read."""
        known = self.known(name)
        self.check_free(name)
        self.describe(name, loading=new)
        prepared: list[Ready] = []
        refused = None
        policy = overrides.policy or offer.policy
        try:
            for version in new:
                one = offer.versions[version]
                try:
                    definition = replace(overrides.apply(one.define()), version_policy=policy)
                    ready = Ready.of(self._running, definition, one.mark)
                    replace_all.check_routes(self._running, {name: [ready]})
                    prepared.append(ready)
                    known.failed.pop(version, None)
                except BaseException as error:
                    if self._running.closed:
                        raise Unavailable("the server is shutting down") from None
                    failure = failures.of(error, name, version, one.place)
                    known.failed[version] = (one.mark, str(failure))
                    refused = refused or failure
            self.swap(name, prepared, list(known.marks) if refused else chosen)
        finally:
            self.describe(name)
        if refused and explicit:
            raise refused

    def swap(self, name: str, prepared: list[Ready], keep: list[str]) -> None:
        """Makes what is prepared, and what serves of `keep`, all that serves of a model."""
        known = self.known(name)
        self._replaced += len(known.marks.keys() - set(keep)) + sum(one.version in known.marks for one in prepared)
        # An explainer is there before its model, and gone after it.
        explainer, explainers = f"{name}:explain", [one.explainer for one in prepared if one.explainer]
        if explainers:
            self._running.swap(explainer, explainers, [*known.marks])
        self._running.swap(name, [one.model for one in prepared], keep)
        if self._running.serving(explainer):
            self._running.swap(explainer, [], [one.version for one in prepared if one.explainer] + keep)
        self._running.forget(explainer)
        known.marks = {version: mark for version, mark in known.marks.items() if version in keep}
        for one in prepared:
            known.marks[one.version] = one.mark
            _log.info("model '%s' version '%s' is loaded", name, one.version)
        if prepared:
            known.unloaded = []

    def _refused(self, name: str, offer: Offer, reason: str) -> None:
        """The whole offer cannot be used as it is."""
        known = self.known(name)
        marks = {version: (one.mark, reason) for version, one in offer.versions.items()}
        if known.failed != marks:
            _log.error("model '%s': %s", name, reason)
            known.failed = marks
            self.describe(name)

    def _announce(self, offers: Mapping[str, Offer]) -> None:
        """Makes every model known that could be loaded, and forgets those that are gone and do not serve."""
        for name in offers:
            if name not in self._known:
                self._known[name] = Known()
                self.describe(name)
        for name in [*self._known]:
            if name not in offers and not self._known[name].marks:
                self.forget(name)

    def forget(self, name: str) -> None:
        """Takes a model out of the index, of which nothing serves."""
        self._known.pop(name, None)
        self._running.forget(name)

    def describe(self, name: str, loading: Iterable[str] = ()) -> None:
        """Says in the index what is known of a model."""
        self._running.describe(name, self.known(name).notes(loading))

    def _offers(self) -> dict[str, Offer]:
        return joined([self.given, *self.folders])
