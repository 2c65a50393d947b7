"""Models that a server starts with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._repository.overrides import Overrides
from penstock._repository.sources import Offer, Source, Version
from penstock.errors import LoadError, PenstockError, StartupError

if TYPE_CHECKING:
    from penstock._spec.definition import Definition
    from penstock.config import ServerConfig

__all__ = ["define", "initial_offers"]


def initial_offers(sources: Sequence[Source], config: ServerConfig, *, required: bool = True) -> dict[str, Offer]:
    """The models to load at startup, by name. All models of the first source, which were given to the server, are.

    Args:
        sources: The sources, the given models first.
        config: The server's settings.
        required: Whether at least one model is required, unless clients load models.

    Raises:
        StartupError: a folder cannot be read, two models have one name, or a model of `load_models` is unknown.
    """
    offers, known = dict(sources[0].offers()), {"*"}
    for source in sources[1:]:
        try:
            more = source.offers()
        except OSError as error:
            raise StartupError(f"the model repository {source} cannot be read: {error.strerror}") from None
        for name, offer in more.items():
            if name in offers or name in known:
                raise StartupError(f"model {name!r} is given twice, one of them in the repository {source}")
            known.add(name)
            if config.model_control != "explicit" or name in config.load_models or "*" in config.load_models:
                offers[name] = offer
    for name in config.load_models:
        if name not in known:
            raise StartupError(f"load_models: there is no model {name!r} in a repository")
    if required and not offers and config.model_control == "none":
        raise StartupError("there is no model to serve; the repository holds none")
    return offers


def define(name: str, offer: Offer) -> list[Definition]:
    """The definitions of a model's versions that its policy chooses.

    Raises:
        LoadError: a version cannot be read; `__cause__` is its own exception.
    """
    try:
        overrides = Overrides.parse(offer.config)
    except PenstockError as error:
        raise LoadError(f"model {name!r}: {error}") from error
    policy = overrides.policy or offer.policy
    chosen = policy.choose(offer.versions)
    definitions = [_define(name, version, offer.versions[version], overrides) for version in chosen]
    return [replace(definition, version_policy=policy) for definition in definitions]


def _define(name: str, version: str, source: Version, overrides: Overrides) -> Definition:
    try:
        return overrides.apply(source.define())
    except Exception as error:
        if not source.folder:
            raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise LoadError(
            f"model {name!r} version {version!r} in {source.folder} could not be loaded: {reason}"
        ) from error
