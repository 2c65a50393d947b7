"""What a server begins with."""

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

__all__ = ["define", "wanted"]


def wanted(sources: Sequence[Source], config: ServerConfig, *, required: bool = True) -> dict[str, Offer]:
    """The models to begin with. Those of the first source were given to the server, so all of them.

    Args:
        sources: Where they come from.
        config: The server's settings.
        required: Whether there must be one, unless clients load them.

    Raises:
        StartupError: a folder cannot be read, two models have one name, or one that is asked for is not there.
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
    """Reads the versions of a model that serve.

    Raises:
        LoadError: one cannot be read; `__cause__` is its own exception.
    """
    try:
        overrides = Overrides.parse(offer.config)
    except PenstockError as error:
        raise LoadError(f"model {name!r}: {error}") from error
    policy = overrides.policy or offer.policy
    chosen = policy.choose(offer.versions)
    read = [_define(name, version, offer.versions[version], overrides) for version in chosen]
    return [replace(one, version_policy=policy) for one in read]


def _define(name: str, version: str, one: Version, overrides: Overrides) -> Definition:
    try:
        return overrides.apply(one.define())
    except Exception as error:
        if not one.place:
            raise
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise LoadError(f"model {name!r} version {version!r} in {one.place} could not be loaded: {what}") from error
