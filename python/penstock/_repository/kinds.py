"""Folder kinds of a model repository, in order of registration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from penstock._repository.native import Native
from penstock._spec.definition import Definition

__all__ = ["FolderKind", "kinds", "register"]


class FolderKind(Protocol):
    """A layout of a model's folder."""

    @property
    def name(self) -> str:
        """Name for messages."""

    def versions(self, folder: Path) -> Mapping[str, Path]:
        """The versions in a model's folder, each with the file or folder that it is reloaded for when it changes.

        Empty if the folder is not of this kind. It is called at each poll, so it should list files, not read them.
        """

    def define(self, folder: Path, name: str, version: str) -> Definition:
        """Reads one version; `folder` is the path that `versions` returned for it.

        It is called for each load, on the repository's thread, and must read the present contents of the files.
        If it raises, the version is not loaded, and the version that serves goes on.
        """


_kinds: list[FolderKind] = [Native()]


def register(kind: FolderKind) -> None:
    """Registers a kind. Call it before the server starts. A kind of the same name is replaced.

    A folder is of the first kind, in order of registration, that finds versions in it.
    """
    _kinds[:] = [*(known for known in _kinds if known.name != kind.name), kind]


def kinds() -> tuple[FolderKind, ...]:
    """The registered kinds, in order of registration."""
    return tuple(_kinds)
