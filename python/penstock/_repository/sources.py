"""Where models come from: those that the server was given, and folders. Each says what it has to offer now."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock._model.options import is_of_another
from penstock._repository.kinds import kinds
from penstock._spec.definition import Definition
from penstock._spec.versions import ALL, VersionPolicy

__all__ = ["Folder", "Given", "Offer", "Source", "Version", "is_name", "joined", "offered"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Folders whose names are not of this form hold no model: hidden ones, and those of tools."""

_CONFIG = "config.json"

_MOST_FILES = 10_000
"""Files of one version that are looked at; a change beyond them is not seen."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version that can be loaded."""

    define: Callable[[], Definition]
    """Reads it, as it is now."""
    mark: object = None
    """Changes when what would be read changes."""
    place: str = ""
    """The folder that it is read from; for the log, never for a client."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that can be loaded."""

    versions: Mapping[str, Version]
    policy: VersionPolicy
    config: str | None = None
    """A document that overrides parts of its configuration."""


class Source(Protocol):
    """Some models."""

    def offers(self) -> Mapping[str, Offer]:
        """The models by name, as they are now.

        Raises:
            OSError: it cannot be said now what there is.
        """


class Given:
    """The models that the server was made with, or that it was given since."""

    def __init__(self, definitions: Iterable[Definition], mark: object = None) -> None:
        found: dict[str, dict[str, Version]] = {}
        for one in definitions:
            # An explainer comes and goes with its model.
            if not is_of_another(one.name):
                found.setdefault(one.name, {})[one.version] = Version(define=_always(one), mark=mark)
        self._offers = {name: Offer(versions, ALL) for name, versions in found.items()}

    def offers(self) -> Mapping[str, Offer]:
        """Always the same."""
        return self._offers

    def definitions(self) -> list[Definition]:
        """All of them."""
        return [one.define() for offer in self._offers.values() for one in offer.versions.values()]

    def plus(self, more: Given) -> Given:
        """These and others; no version is among both."""
        both = {name: {**self._versions(name), **offer.versions} for name, offer in more.offers().items()}
        return self._with({name: Offer(versions, ALL) for name, versions in both.items()})

    def minus(self, name: str, versions: Iterable[str]) -> Given:
        """These without some versions of one."""
        gone = set(versions)
        left = {version: one for version, one in self._versions(name).items() if version not in gone}
        return self._with({name: Offer(left, ALL)})

    def _versions(self, name: str) -> Mapping[str, Version]:
        return self._offers[name].versions if name in self._offers else {}

    def _with(self, changed: Mapping[str, Offer]) -> Given:
        made = Given(())
        made._offers = {name: one for name, one in {**self._offers, **changed}.items() if one.versions}
        return made


class Folder:
    """A folder with a folder for each model. Clients' names are looked up in what it holds, never joined to a path."""

    def __init__(self, path: str, policy: VersionPolicy) -> None:
        self.path, self._policy = Path(path).absolute(), policy

    def __str__(self) -> str:
        return str(self.path)

    def offers(self) -> Mapping[str, Offer]:
        """What is in the folder now."""
        found = {}
        for model in sorted(self.path.iterdir()):
            if is_name(model.name) and model.is_dir() and (offer := offered(model, model.name, self._policy)):
                found[model.name] = offer
        return found


def is_name(text: str) -> bool:
    """Whether a folder of that name can hold a model, or a version."""
    return _NAME.fullmatch(text) is not None


def offered(folder: Path, model: str, policy: VersionPolicy) -> Offer | None:
    """What a model's folder offers, as the first kind that finds versions in it reads them; None if none does."""
    for kind in kinds():
        paths = {name: path for name, path in kind.versions(folder).items() if is_name(name)}
        if not paths:
            continue
        config = _read(folder / _CONFIG)
        versions = {
            name: Version(
                define=_reader(kind.define, path, model, name),
                mark=(kind.name, config, *_marks(path)),
                place=str(path),
            )
            for name, path in paths.items()
        }
        return Offer(versions, policy, config)
    return None


def joined(sources: Iterable[Source]) -> dict[str, Offer]:
    """What several sources offer now; of two of one name, the first source's."""
    found: dict[str, Offer] = {}
    for source in sources:
        for name, offer in source.offers().items():
            found.setdefault(name, offer)
    return found


def _always(definition: Definition) -> Callable[[], Definition]:
    return lambda: definition


def _reader(define: Callable[[Path, str, str], Definition], path: Path, name: str, version: str) -> Any:
    return lambda: define(path, name, version)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _marks(path: Path) -> Iterator[tuple[str, int, int, int]]:
    """What tells a file from what it was: its name, number, size, and when it changed."""
    count = 0
    for folder, folders, files in os.walk(path, followlinks=False):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and not name.startswith("."))
        for name in sorted(files):
            file = os.path.join(folder, name)
            try:
                found = os.stat(file)
            except FileNotFoundError:
                continue
            yield os.path.relpath(file, path), found.st_ino, found.st_size, found.st_mtime_ns
            count += 1
            if count == _MOST_FILES:
                return
    if path.is_file():
        found = path.stat()
        yield "", found.st_ino, found.st_size, found.st_mtime_ns
