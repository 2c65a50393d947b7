"""Sources of models: definitions that the server was given, and repository folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock._model.options import belongs_to_model
from penstock._repository.kinds import kinds
from penstock._spec.definition import Definition
from penstock._spec.versions import ALL, VersionPolicy

__all__ = ["Folder", "GivenModels", "Offer", "Source", "Sources", "Version", "is_name", "read_offer"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Names of folders that can be models or versions. Hidden folders and those of tools are not."""

_CONFIG = "config.json"

_MOST_FILES = 10_000
"""Files of one version that are checked for changes."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version that can be loaded."""

    define: Callable[[], Definition]
    """Reads the version in its present form."""
    fingerprint: object = None
    """Changes when the version's files change."""
    folder: str = ""
    """The folder that it is read from. For the log only: it is not shown to clients."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that can be loaded."""

    versions: Mapping[str, Version]
    policy: VersionPolicy
    config: str | None = None
    """Overrides of the model's configuration, as a document."""


class Source(Protocol):
    """A source of models."""

    def offers(self) -> Mapping[str, Offer]:
        """The present models, by name.

        Raises:
            OSError: the source cannot be read now.
        """


class GivenModels:
    """Definitions that the server was constructed with, or that were added since."""

    def __init__(self, definitions: Iterable[Definition], fingerprint: object = None) -> None:
        models: dict[str, dict[str, Version]] = {}
        for definition in definitions:
            # An explainer is loaded and unloaded with its model.
            if not belongs_to_model(definition.name):
                version = Version(define=_always(definition), fingerprint=fingerprint)
                models.setdefault(definition.name, {})[definition.version] = version
        self._offers = {name: Offer(versions, ALL) for name, versions in models.items()}

    def offers(self) -> Mapping[str, Offer]:
        """The models, by name; always the same."""
        return self._offers

    def definitions(self) -> list[Definition]:
        """The definitions of all versions."""
        return [version.define() for offer in self._offers.values() for version in offer.versions.values()]

    def plus(self, added: GivenModels) -> GivenModels:
        """These models and others; a version of `added` replaces one of the same name."""
        both = {name: {**self._versions(name), **offer.versions} for name, offer in added.offers().items()}
        return self._with({name: Offer(versions, ALL) for name, versions in both.items()})

    def minus(self, name: str, versions: Iterable[str]) -> GivenModels:
        """These models without some versions of one."""
        removed = set(versions)
        remaining = {version: source for version, source in self._versions(name).items() if version not in removed}
        return self._with({name: Offer(remaining, ALL)})

    def _versions(self, name: str) -> Mapping[str, Version]:
        return self._offers[name].versions if name in self._offers else {}

    def _with(self, changed: Mapping[str, Offer]) -> GivenModels:
        models = GivenModels(())
        models._offers = {name: offer for name, offer in {**self._offers, **changed}.items() if offer.versions}
        return models


class Folder:
    """A folder with a folder for each model. A client's name is looked up in its listing, never joined to a path."""

    def __init__(self, path: str, policy: VersionPolicy) -> None:
        self.path, self._policy = Path(path).absolute(), policy

    def __str__(self) -> str:
        return str(self.path)

    def offers(self) -> Mapping[str, Offer]:
        """The present models in the folder, by name."""
        offers = {}
        for model in sorted(self.path.iterdir()):
            if is_name(model.name) and model.is_dir() and (offer := read_offer(model, model.name, self._policy)):
                offers[model.name] = offer
        return offers


@dataclass(slots=True)
class Sources:
    """The sources of a server's models. Given models take precedence over folders."""

    given: GivenModels
    folders: Sequence[Folder]

    def offers(self) -> Mapping[str, Offer]:
        """The present models, by name.

        Raises:
            OSError: a folder cannot be read now.
        """
        sources: list[Source] = [self.given, *self.folders]
        offers: dict[str, Offer] = {}
        for source in sources:
            for name, offer in source.offers().items():
                offers.setdefault(name, offer)
        return offers


def is_name(text: str) -> bool:
    """True if a folder of that name can be a model, or a version."""
    return _NAME.fullmatch(text) is not None


def read_offer(folder: Path, model: str, policy: VersionPolicy) -> Offer | None:
    """The versions in a model's folder, by the first kind that finds any; None if no kind does."""
    for kind in kinds():
        paths = {name: path for name, path in kind.versions(folder).items() if is_name(name)}
        if not paths:
            continue
        config = _read(folder / _CONFIG)
        versions = {
            name: Version(
                define=_reader(kind.define, path, model, name),
                fingerprint=(kind.name, config, *_file_states(path)),
                folder=str(path),
            )
            for name, path in paths.items()
        }
        return Offer(versions, policy, config)
    return None


def _always(definition: Definition) -> Callable[[], Definition]:
    return lambda: definition


def _reader(define: Callable[[Path, str, str], Definition], path: Path, name: str, version: str) -> Any:
    return lambda: define(path, name, version)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _file_states(path: Path) -> Iterator[tuple[str, int, int, int]]:
    """For each file: its name, inode, size, and modification time in nanoseconds."""
    count = 0
    for folder, folders, files in os.walk(path, followlinks=False):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and not name.startswith("."))
        for name in sorted(files):
            file = os.path.join(folder, name)
            try:
                status = os.stat(file)
            except FileNotFoundError:
                continue
            yield os.path.relpath(file, path), status.st_ino, status.st_size, status.st_mtime_ns
            count += 1
            if count == _MOST_FILES:
                return
    if path.is_file():
        status = path.stat()
        yield "", status.st_ino, status.st_size, status.st_mtime_ns
