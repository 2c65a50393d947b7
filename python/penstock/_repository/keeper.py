"""Keeps a server's models as its sources have them: at the start, by looking now and then, or when told.

A version serves from the moment at which all its instances are built and warm; what it replaces finishes
what it has and ends. Whatever fails is said in the index, and changes nothing of what serves.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock._repository import failures
from penstock._repository.known import Known, Ready
from penstock._repository.overrides import Overrides
from penstock._repository.sources import Folder, Given, Offer, Source
from penstock._repository.start import define, wanted
from penstock._repository.versions import VersionPolicy
from penstock.errors import InvalidInput, NotFound, PenstockError, StartupError, Unavailable, Unsupported

if TYPE_CHECKING:
    from penstock import _core
    from penstock._definition import Definition
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
        sources: Where models come from; of two of one name, the first source's is meant.
        config: The server's settings.
    """

    @classmethod
    def of(cls, given: Iterable[Definition], config: ServerConfig) -> Keeper:
        """The keeper of a server that was given some models, and whose settings name folders of others."""
        policy = VersionPolicy.parse(config.version_policy)
        # An explainer comes and goes with its model.
        models = [one for one in given if ":" not in one.name]
        return cls([Given(models), *(Folder(path, policy) for path in config.repository)], config)

    def __init__(self, sources: Iterable[Source], config: ServerConfig) -> None:
        self._sources, self._config = [*sources], config
        self._known: dict[str, Known] = {}
        self._models: _core.Models | None = None
        self._replaced = 0
        """Versions that were taken out, and whose code may still be there."""
        self._thread: threading.Thread | None = None

    def at_start(self) -> list[Definition]:
        """What the server is to be made with.

        Raises:
            LoadError: a model cannot be read; `__cause__` is its own exception.
            StartupError: a folder cannot be read, two models have one name, or one that is asked for is not there.
        """
        found = []
        for name, offer in wanted(self._sources, self._config).items():
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
        self._thread = threading.Thread(target=self._loop, name="penstock-repository", daemon=True)
        self._thread.start()

    def stop(self, timeout: float | None = None) -> list[str]:
        """Takes no more commands, and waits a few seconds until the one that is carried out has ended.

        The timeout is for likeness with a server: a load has no requests of its own.
        """
        del timeout
        if self._models is not None:
            self._models.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_WITHIN)
        return self.stuck()

    def stuck(self) -> list[str]:
        """Named if a load has not ended."""
        return ["the model repository"] if self._thread is not None and self._thread.is_alive() else []

    def _loop(self) -> None:
        assert self._models is not None
        polls = self._config.model_control == "poll"
        every = self._config.poll_interval
        next_look = time.monotonic() + every
        while not self._models.closed:
            wait = max(0.0, next_look - time.monotonic())
            command = self._models.next(min(wait, _GARBAGE_EVERY) if self._replaced else wait)
            if command is not None:
                self._carry_out(command)
            elif not self._models.closed and time.monotonic() >= next_look:
                self._look(polls=polls)
                next_look = time.monotonic() + every
            self._collect()

    def _collect(self) -> None:
        """Frees the code of what was replaced, once it has ended: a module and its functions hold each other."""
        assert self._models is not None
        if self._replaced and (leaving := self._models.leaving()) < self._replaced:
            gc.collect()
            self._replaced = leaving

    def _carry_out(self, command: _core.Command) -> None:
        name, load = command.model, command.load
        try:
            if load is None:
                self._unload(name)
            else:
                self._load(name, *load)
        except PenstockError as error:
            command.refuse(error.kind if not isinstance(error, StartupError) else "handler", str(error))
        except BaseException:
            # This thread must outlive whatever a model's code does.
            _log.exception("model '%s': loading it failed", failures.printable(name))
            command.refuse("internal", f"model '{name}': the server failed to load it")
        else:
            command.done()

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
            known = self._known.setdefault(name, Known())
            known.failed = {version: why for version, why in known.failed.items() if version in chosen}
            new = [one for one in chosen if not known.is_done(one, offer.versions[one].mark)]
            if new or known.marks.keys() - set(chosen):
                self._bring(name, offer, chosen, new, overrides)
        for name in self._known.keys() - offers.keys():
            self._swap(name, [], [])
            self._forget(name)

    def _load(self, name: str, config: str | None, files: Mapping[str, bytes]) -> None:
        if files:
            raise Unsupported("load parameters 'file:...' are not supported: models come from the server's own folders")
        offers = self._offers()
        self._announce(offers)
        offer = offers.get(name)
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
        if name not in self._known and name not in self._offers():
            raise NotFound(f"unknown model '{failures.printable(name)}'")
        known = self._known.setdefault(name, Known())
        known.unloaded = [*known.marks] or known.unloaded
        known.failed.clear()
        self._swap(name, [], [])
        self._describe(name)
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
        assert self._models is not None
        known = self._known.setdefault(name, Known())
        self._describe(name, loading=new)
        prepared: list[Ready] = []
        refused = None
        try:
            for version in new:
                one = offer.versions[version]
                try:
                    definition = overrides.apply(one.define())
                    explainer = self._models.prepare(definition.explainer) if definition.explainer else None
                    prepared.append(Ready(version, one.mark, self._models.prepare(definition), explainer))
                    known.failed.pop(version, None)
                except BaseException as error:
                    if self._models.closed:
                        raise Unavailable("the server is shutting down") from None
                    failure = failures.of(error, name, version, one.place)
                    known.failed[version] = (one.mark, str(failure))
                    refused = refused or failure
            self._swap(name, prepared, list(known.marks) if refused else chosen)
        finally:
            self._describe(name)
        if refused and explicit:
            raise refused

    def _swap(self, name: str, prepared: list[Ready], keep: list[str]) -> None:
        assert self._models is not None
        known = self._known.setdefault(name, Known())
        self._replaced += len(known.marks.keys() - set(keep)) + sum(one.version in known.marks for one in prepared)
        # An explainer is there before its model, and gone after it.
        explainer, explainers = f"{name}:explain", [one.explainer for one in prepared if one.explainer]
        if explainers:
            self._models.swap(explainer, explainers, [*known.marks])
        self._models.swap(name, [one.model for one in prepared], keep)
        if self._models.serving(explainer):
            self._models.swap(explainer, [], [one.version for one in prepared if one.explainer] + keep)
        self._models.forget(explainer)
        known.marks = {version: mark for version, mark in known.marks.items() if version in keep}
        for one in prepared:
            known.marks[one.version] = one.mark
            _log.info("model '%s' version '%s' is loaded", name, one.version)
        if prepared:
            known.unloaded = []

    def _refused(self, name: str, offer: Offer, reason: str) -> None:
        """The whole offer cannot be used as it is."""
        known = self._known.setdefault(name, Known())
        marks = {version: (one.mark, reason) for version, one in offer.versions.items()}
        if known.failed != marks:
            _log.error("model '%s': %s", name, reason)
            known.failed = marks
            self._describe(name)

    def _announce(self, offers: Mapping[str, Offer]) -> None:
        """Makes every model known that could be loaded, and forgets those that are gone and do not serve."""
        for name in offers:
            if name not in self._known:
                self._known[name] = Known()
                self._describe(name)
        for name in [*self._known]:
            if name not in offers and not self._known[name].marks:
                self._forget(name)

    def _forget(self, name: str) -> None:
        assert self._models is not None
        self._known.pop(name, None)
        self._models.forget(name)

    def _describe(self, name: str, loading: Iterable[str] = ()) -> None:
        assert self._models is not None
        self._models.describe(name, self._known.setdefault(name, Known()).notes(loading))

    def _offers(self) -> dict[str, Offer]:
        found: dict[str, Offer] = {}
        for source in self._sources:
            for name, offer in source.offers().items():
                found.setdefault(name, offer)
        return found
