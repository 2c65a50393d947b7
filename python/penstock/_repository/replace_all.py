"""Replaces all the models that a server was given by others: in full, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock._model.options import is_of_another
from penstock._repository import failures
from penstock._repository.model_state import Ready
from penstock._repository.sources import Given
from penstock.errors import StartupError, Unavailable

if TYPE_CHECKING:
    from penstock import _core
    from penstock._repository.manager import Keeper
    from penstock._spec.definition import Definition

__all__ = ["check_names", "check_routes", "renew"]


def renew(
    keeper: Keeper, models: _core.Models, read: Callable[[], Iterable[Definition]], places: Sequence[str]
) -> list[str]:
    """Does so for a keeper whose turn it is. See `Keeper.renew`."""
    old = keeper.given.offers()
    for name in old:
        keeper.describe(name, loading=keeper.known(name).marks)
    try:
        mark = object()
        definitions = [one for one in read() if not is_of_another(one.name)]
        given = Given(definitions, mark)
        check_names(keeper, given)
        # A client's word that a model is to be gone outlives its code.
        wanted = [one for one in definitions if not keeper.known(one.name).is_unloaded()]
        prepared: dict[str, list[Ready]] = {}
        for one in wanted:
            prepared.setdefault(one.name, []).append(Ready.of(models, one, mark))
        check_routes(models, prepared, old.keys() - given.offers().keys())
    except BaseException as error:
        if models.closed:
            raise Unavailable("the server is shutting down") from None
        failure = failures.of_all(error, places)
        for name in old:
            known = keeper.known(name)
            known.failed = {version: (None, str(failure)) for version in known.marks}
        raise failure from error
    else:
        keeper.given = given
        for name, ready in prepared.items():
            keeper.known(name).failed.clear()
            keeper.swap(name, ready, [])
        for name in old.keys() - given.offers().keys():
            keeper.swap(name, [], [])
            keeper.forget(name)
        return list(prepared)
    finally:
        for name in keeper.given.offers():
            keeper.describe(name)


def check_routes(models: _core.Models, prepared: Mapping[str, Iterable[Ready]], leaving: Iterable[str] = ()) -> None:
    """Refuses models of which one has a route of another one that is not about to leave.

    Raises:
        SignatureError: there is one.
    """
    models.check_routes([one.model for ready in prepared.values() for one in ready], [*leaving])


def check_names(keeper: Keeper, given: Given) -> None:
    """Refuses models that are new to a keeper, and that one of its folders, or another process, has too.

    Raises:
        StartupError: there is one.
        AlreadyExists: another process has attached it.
    """
    for name in given.offers():
        keeper.claim(name)
    before = keeper.given.offers().keys()
    for folder in keeper.folders:
        if twice := (given.offers().keys() - before) & folder.offers().keys():
            raise StartupError(f"model {min(twice)!r} is given twice, one of them in a repository")
