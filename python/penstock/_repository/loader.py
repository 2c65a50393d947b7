"""Loads and unloads models of repository folders: on a client's request, or when the folders change."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._repository import failures, replace_all, uploads
from penstock._repository.model_state import ReadyVersion
from penstock._repository.overrides import Overrides
from penstock._repository.sources import Offer, Sources
from penstock._spec.versions import VersionPolicy
from penstock.errors import InvalidInput, NotFound, PenstockError, Unavailable

if TYPE_CHECKING:
    from penstock._repository.model_table import ModelTable
    from penstock.config import ServerConfig

__all__ = ["Loader"]

_log = logging.getLogger("penstock.repository")


class Loader:
    """Loads versions that the sources of a server offer.

    Args:
        table: The server's models.
        sources: The sources of the models.
        config: The server's settings.
    """

    def __init__(self, table: ModelTable, sources: Sources, config: ServerConfig) -> None:
        self._table, self._sources = table, sources
        self._load_files = config.load_files
        self._policy = VersionPolicy.parse(config.version_policy)

    def poll(self, *, load: bool) -> None:
        """Reads the folders. Updates the index, and with `load` also the versions that serve."""
        try:
            offers = self._sources.offers()
        except OSError as error:
            _log.warning("the model repository cannot be read, what serves goes on: %s", error)
            return
        try:
            self._table.announce(offers)
            if load:
                self._follow(offers)
        except BaseException:
            _log.exception("polling the model repository failed")

    def announce(self) -> None:
        """Adds the models that can be loaded to the index."""
        self._table.announce(self._sources.offers())

    def load(self, name: str, config: str | None, files: Mapping[str, bytes]) -> None:
        """Loads a model for a client, from its folder or from files that came with the request.

        Raises:
            PenstockError: the model is not loaded; the message is for the client.
        """
        if files and not self._load_files:
            raise failures.no_files()
        self._table.check_not_attached(name)
        offers = self._sources.offers()
        self._table.announce(offers)
        # Uploaded files replace all that the repository has of the model, its configuration too.
        offer = uploads.offer(name, files, self._policy) if files else offers.get(name)
        if offer is None:
            raise NotFound(f"unknown model '{failures.printable(name)}'")
        overrides = Overrides.parse(config).over(Overrides.parse(offer.config))
        chosen = (overrides.policy or offer.policy).choose(offer.versions)
        if not chosen:
            policy = overrides.policy or offer.policy
            versions = ", ".join(offer.versions)
            raise InvalidInput(f"model '{name}' has no version of its version policy {policy}, it has {versions}")
        self._serve(name, offer, chosen, chosen, overrides, for_client=True)

    def unload(self, name: str) -> None:
        """Unloads a model for a client.

        Raises:
            PenstockError: the model is unknown, or attached by another process.
        """
        self._table.check_not_attached(name)
        if not self._table.has(name) and name not in self._sources.offers():
            raise NotFound(f"unknown model '{failures.printable(name)}'")
        state = self._table.state(name)
        state.unloaded = [*state.serving] or state.unloaded
        state.failed.clear()
        self._table.swap(name, [], [])
        self._table.describe(name)
        _log.info("model '%s' is unloaded", name)

    def _follow(self, offers: Mapping[str, Offer]) -> None:
        """Loads versions that are new or changed, and unloads those that are gone."""
        for name, offer in offers.items():
            try:
                overrides = Overrides.parse(offer.config)
                chosen = (overrides.policy or offer.policy).choose(offer.versions)
            except PenstockError as error:
                self._reject(name, offer, str(error))
                continue
            state = self._table.state(name)
            state.failed = {version: reason for version, reason in state.failed.items() if version in chosen}
            new = [version for version in chosen if not state.is_current(version, offer.versions[version].fingerprint)]
            if name in self._table.attached:
                self._reject(name, offer, "another process has attached a model of that name")
            elif new or state.serving.keys() - set(chosen):
                self._serve(name, offer, chosen, new, overrides)
        for name in self._table.states.keys() - offers.keys():
            self._table.swap(name, [], [])
            self._table.forget(name)

    def _serve(
        self,
        name: str,
        offer: Offer,
        chosen: list[str],
        new: list[str],
        overrides: Overrides,
        *,
        for_client: bool = False,
    ) -> None:
        """Lets the versions `chosen` serve; builds those that are in `new`. If one fails, the others go on."""
        table = self._table
        state = table.state(name)
        table.check_not_attached(name)
        table.describe(name, loading=new)
        ready: list[ReadyVersion] = []
        first_failure = None
        try:
            for version in new:
                try:
                    ready.append(self._build(name, offer, version, overrides))
                    state.failed.pop(version, None)
                except BaseException as error:
                    if table.models.closed:
                        raise Unavailable("the server is shutting down") from None
                    failure = failures.of(error, name, version, offer.versions[version].folder)
                    state.failed[version] = (offer.versions[version].fingerprint, str(failure))
                    first_failure = first_failure or failure
            table.swap(name, ready, list(state.serving) if first_failure else chosen)
        finally:
            table.describe(name)
        if first_failure and for_client:
            raise first_failure

    def _build(self, name: str, offer: Offer, version: str, overrides: Overrides) -> ReadyVersion:
        source = offer.versions[version]
        definition = replace(overrides.apply(source.define()), version_policy=overrides.policy or offer.policy)
        ready = ReadyVersion.build(self._table.models, definition, source.fingerprint)
        replace_all.check_routes(self._table.models, {name: [ready]})
        return ready

    def _reject(self, name: str, offer: Offer, reason: str) -> None:
        """Marks all versions of an offer as failed."""
        state = self._table.state(name)
        failed = {version: (source.fingerprint, reason) for version, source in offer.versions.items()}
        if state.failed != failed:
            _log.error("model '%s': %s", name, reason)
            state.failed = failed
            self._table.describe(name)
