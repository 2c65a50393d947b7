"""Adds models to those that a server was given, and removes them: one change of what serves, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from penstock._model import call_graph
from penstock._model.options import is_of_another
from penstock._repository import replace_all
from penstock._repository.model_state import Ready
from penstock._repository.sources import Given
from penstock.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from penstock import _core
    from penstock._repository.manager import Keeper
    from penstock._spec.definition import Definition

__all__ = ["add", "remove"]


def add(
    keeper: Keeper,
    models: _core.Models,
    joined: Callable[[list[Definition]], Iterable[Definition]],
    replaced: Collection[tuple[str, str]] = frozenset(),
) -> list[str]:
    """Does so for a keeper whose turn it is; the models of these names and versions may make way. See `Server.add`."""
    _require_open(models)
    before = [one for one in keeper.given.definitions() if (one.name, one.version) not in replaced]
    there = {(one.name, one.version) for one in before}
    mark = object()
    new = [one for one in joined(before) if not is_of_another(one.name) and (one.name, one.version) not in there]
    more = Given(new, mark)
    replace_all.check_names(keeper, more)
    for name, offer in more.offers().items():
        keeper.describe(name, loading=offer.versions)
    try:
        prepared: dict[str, list[Ready]] = {}
        for one in new:
            prepared.setdefault(one.name, []).append(Ready.of(models, one, mark))
        replace_all.check_routes(models, prepared)
    except BaseException:
        for name in more.offers():
            _say(keeper, name)
        _require_open(models)
        raise
    keeper.given = keeper.given.plus(more)
    for name, ready in prepared.items():
        keeper.swap(name, ready, [*keeper.known(name).marks])
        keeper.describe(name)
    return [*prepared]


def remove(keeper: Keeper, models: _core.Models, name: str, version: str | None) -> None:
    """Does so for a keeper whose turn it is. See `Server.remove`."""
    offer = keeper.given.offers().get(name)
    if offer is None or (version is not None and version not in offer.versions):
        which = f"{name!r}" if version is None else f"{name!r} version {version!r}"
        raise NotFound(f"the server was given no model {which}")
    _require_open(models)
    left = keeper.given.minus(name, offer.versions if version is None else [version])
    call_graph.check(left.definitions(), all_known=not keeper.folders)
    keeper.given = left
    known = keeper.known(name)
    keeper.swap(name, [], [one for one in known.marks if version is not None and one != version])
    known.failed.clear()
    _say(keeper, name)


def _say(keeper: Keeper, name: str) -> None:
    if name in keeper.given.offers():
        keeper.describe(name)
    else:
        keeper.forget(name)


def _require_open(models: _core.Models) -> None:
    if models.closed:
        raise Unavailable("the server is shutting down") from None
