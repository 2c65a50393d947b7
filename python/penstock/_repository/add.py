"""Adds models to a running server, and removes them: one change of what serves, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from penstock._model import call_graph
from penstock._model.options import belongs_to_model
from penstock._repository import replace_all
from penstock._repository.model_state import ReadyVersion
from penstock._repository.sources import GivenModels
from penstock.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from penstock import _core
    from penstock._repository.model_table import ModelTable
    from penstock._repository.sources import Sources
    from penstock._spec.definition import Definition

__all__ = ["add", "remove"]


def add(
    table: ModelTable,
    sources: Sources,
    define_all: Callable[[list[Definition]], Iterable[Definition]],
    replaced: Collection[tuple[str, str]] = frozenset(),
) -> list[str]:
    """Adds models to those given. The caller holds the manager's lock. See `Server.add`.

    Args:
        table: The server's models.
        sources: The sources of the models. The added ones become part of them.
        define_all: Returns all definitions, for the list of those that stay.
        replaced: Names and versions of present models that may be replaced.
    """
    _check_open(table.models)
    staying = [
        definition
        for definition in sources.given.definitions()
        if (definition.name, definition.version) not in replaced
    ]
    known = {(definition.name, definition.version) for definition in staying}
    fingerprint = object()
    new = [
        definition
        for definition in define_all(staying)
        if not belongs_to_model(definition.name) and (definition.name, definition.version) not in known
    ]
    added = GivenModels(new, fingerprint)
    replace_all.check_names(table, sources, added)
    for name, offer in added.offers().items():
        table.describe(name, loading=offer.versions)
    try:
        ready: dict[str, list[ReadyVersion]] = {}
        for definition in new:
            version = ReadyVersion.build(table.models, definition, fingerprint)
            ready.setdefault(definition.name, []).append(version)
        replace_all.check_routes(table.models, ready)
    except BaseException:
        for name in added.offers():
            _update_index(table, sources, name)
        _check_open(table.models)
        raise
    sources.given = sources.given.plus(added)
    for name, versions in ready.items():
        table.swap(name, versions, table.state(name).serving)
        table.describe(name)
    return [*ready]


def remove(table: ModelTable, sources: Sources, name: str, version: str | None) -> None:
    """Removes a model, or one version of it. The caller holds the manager's lock. See `Server.remove`."""
    offer = sources.given.offers().get(name)
    if offer is None or (version is not None and version not in offer.versions):
        which = f"{name!r}" if version is None else f"{name!r} version {version!r}"
        raise NotFound(f"the server was given no model {which}")
    _check_open(table.models)
    staying = sources.given.minus(name, offer.versions if version is None else [version])
    call_graph.check(staying.definitions(), all_known=not sources.folders)
    sources.given = staying
    state = table.state(name)
    table.swap(name, [], [other for other in state.serving if version is not None and other != version])
    state.failed.clear()
    _update_index(table, sources, name)


def _update_index(table: ModelTable, sources: Sources, name: str) -> None:
    if name in sources.given.offers():
        table.describe(name)
    else:
        table.forget(name)


def _check_open(models: _core.ModelRegistry) -> None:
    if models.closed:
        raise Unavailable("the server is shutting down") from None
