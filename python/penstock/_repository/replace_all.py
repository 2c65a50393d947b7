"""Replacement of all models that a server was given: complete, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock._model.options import belongs_to_model
from penstock._repository import failures
from penstock._repository.model_state import ReadyVersion
from penstock._repository.sources import GivenModels
from penstock.errors import StartupError, Unavailable

if TYPE_CHECKING:
    from penstock import _core
    from penstock._repository.model_table import ModelTable
    from penstock._repository.sources import Sources
    from penstock._spec.definition import Definition

__all__ = ["check_names", "check_routes", "replace_given"]


def replace_given(
    table: ModelTable, sources: Sources, read: Callable[[], Iterable[Definition]], folders: Sequence[str]
) -> list[str]:
    """Replaces the given models. The caller holds the manager's lock. See `Server.reload`."""
    old = sources.given.offers()
    for name in old:
        table.describe(name, loading=table.state(name).serving)
    try:
        fingerprint = object()
        definitions = [definition for definition in read() if not belongs_to_model(definition.name)]
        given = GivenModels(definitions, fingerprint)
        check_names(table, sources, given)
        ready: dict[str, list[ReadyVersion]] = {}
        for definition in definitions:
            # A model that a client has unloaded stays unloaded when its code is reloaded.
            if not table.state(definition.name).is_unloaded():
                version = ReadyVersion.build(table.models, definition, fingerprint)
                ready.setdefault(definition.name, []).append(version)
        check_routes(table.models, ready, old.keys() - given.offers().keys())
    except BaseException as error:
        if table.models.closed:
            raise Unavailable("the server is shutting down") from None
        failure = failures.of_all(error, folders)
        for name in old:
            state = table.state(name)
            state.failed = {version: (None, str(failure)) for version in state.serving}
        raise failure from error
    else:
        sources.given = given
        for name, versions in ready.items():
            table.state(name).failed.clear()
            table.swap(name, versions, [])
        for name in old.keys() - given.offers().keys():
            table.swap(name, [], [])
            table.forget(name)
        return list(ready)
    finally:
        for name in sources.given.offers():
            table.describe(name)


def check_routes(
    models: _core.ModelRegistry, ready: Mapping[str, Iterable[ReadyVersion]], leaving: Iterable[str] = ()
) -> None:
    """Checks that no two models share a route, apart from those in `leaving`, which are about to end.

    Raises:
        SignatureError: two models share a route.
    """
    models.check_routes([version.model for versions in ready.values() for version in versions], [*leaving])


def check_names(table: ModelTable, sources: Sources, given: GivenModels) -> None:
    """Reserves the names of models, and checks that the new ones are not in a folder too.

    Raises:
        StartupError: a folder has a model of the same name.
        AlreadyExists: another process has attached a model of the same name.
    """
    for name in given.offers():
        table.claim(name)
    before = sources.given.offers().keys()
    for folder in sources.folders:
        if twice := (given.offers().keys() - before) & folder.offers().keys():
            raise StartupError(f"model {min(twice)!r} is given twice, one of them in a repository")
