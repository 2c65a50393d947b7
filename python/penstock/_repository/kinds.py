"""Folder kinds of a model repository, in the order of registration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from penstock._repository.native import Native
from penstock._spec.definition import Definition

__all__ = ["FolderKind", "kinds", "register"]


class FolderKind(Protocol):
    """One way to lay out a model's folder."""

    @property
    def name(self) -> str:
        """Its name, for messages."""

    def versions(self, folder: Path) -> Mapping[str, Path]:
        """The versions in a model's folder, and for each the file or folder whose change makes it a new one.

        Empty if the folder is not of this kind. Called often: it should look, not read.
        """

    def define(self, folder: Path, name: str, version: str) -> Definition:
        """Reads one version; `folder` is what `versions` gave for it.

        Called anew for each load, on the repository's thread, and must then see what the files hold now.
        What it raises is why the version is not loaded; the version that serves goes on serving.
        """


_kinds: list[FolderKind] = [Native()]


def register(kind: FolderKind) -> None:
    """Makes a kind known; before the server starts. A kind of the same name is replaced.

    A folder is of the first kind, in the order of registration, that finds versions in it.
    """
    _kinds[:] = [*(known for known in _kinds if known.name != kind.name), kind]


def kinds() -> tuple[FolderKind, ...]:
    """The kinds that are known, in the order in which they are asked."""
    return tuple(_kinds)
