"""Attached models of a server: which names are reserved, and which versions serve."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.errors import AlreadyExists

if TYPE_CHECKING:
    from penstock import _core
    from penstock._repository.model_table import ModelTable

__all__ = ["AttachedModels", "Key"]

Key = tuple[str, str]
"""A model's name and version."""


class AttachedModels:
    """The attached models of all sessions.

    Args:
        models: The server's models.
        own: The server's own models, whose names cannot be attached.
    """

    def __init__(self, models: _core.ModelRegistry, own: ModelTable) -> None:
        self.models, self._own = models, own
        self.lock = threading.RLock()
        """Guards all changes of the attached models."""
        self._reserved: set[Key] = set()
        self._serving: set[Key] = set()

    def reserve(self, keys: Sequence[Key]) -> None:
        """Reserves names and versions for models that are being built: all of them, or none.

        Raises:
            AlreadyExists: a name and version is taken.
        """
        with self.lock:
            for index, (name, version) in enumerate(keys):
                if (name, version) in self._reserved or (name, version) in keys[:index]:
                    raise AlreadyExists(f"model '{name}' version '{version}' is attached already")
            # Reserve first, check afterwards: `ModelTable.claim` does the same, so one of the two sees the other.
            self._reserved.update(keys)
            self._share_names()
            for name, _ in keys:
                if self._own.has(name):
                    self.release(keys)
                    raise AlreadyExists(f"the server has a model '{name}' of its own; attach it under another name")

    def release(self, keys: Iterable[Key]) -> None:
        """Releases reserved names and versions."""
        with self.lock:
            self._reserved.difference_update(keys)
            self._share_names()

    def publish(self, ready: Sequence[tuple[Key, _core.PreparedModel]]) -> None:
        """Lets models serve whose instances are built."""
        for name in dict.fromkeys(name for (name, _), _ in ready):
            versions = [model for (other, _), model in ready if other == name]
            self.models.swap(name, versions, self._versions(name))
            self._serving.update(key for key, _ in ready if key[0] == name)

    def withdraw(self, keys: Sequence[Key]) -> None:
        """Withdraws models; they finish the requests that they have."""
        self._serving.difference_update(keys)
        for name in dict.fromkeys(name for name, _ in keys):
            self.models.swap(name, [], self._versions(name))
            self.models.forget(name)
        self.release(keys)

    def _versions(self, name: str) -> list[str]:
        return [version for other, version in self._serving if other == name]

    def _share_names(self) -> None:
        self._own.attached = frozenset(name for name, _ in self._reserved)
