"""The models of a server that other processes have attached: whose a name is, and what serves under it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.errors import AlreadyExists

if TYPE_CHECKING:
    from penstock import _core
    from penstock._attach.session import Guest
    from penstock._repository.manager import Keeper

__all__ = ["Key", "Table"]

Key = tuple[str, str]
"""A model's name and version."""


class Table:
    """What is attached now, by whom ever.

    Args:
        models: The server's.
        keeper: Of the models that the server itself has, whose names nobody else may take.
    """

    def __init__(self, models: _core.Models, keeper: Keeper) -> None:
        self.models, self._keeper = models, keeper
        self.lock = threading.RLock()
        """Held by whoever changes what is attached."""
        self.guests: set[Guest] = set()
        self._reserved: set[Key] = set()
        self._serving: set[Key] = set()

    def reserve(self, keys: Sequence[Key]) -> None:
        """Keeps names and versions for models that are being built: all of them, or none.

        Raises:
            AlreadyExists: one is taken.
        """
        with self.lock:
            for place, (name, version) in enumerate(keys):
                if (name, version) in self._reserved or (name, version) in keys[:place]:
                    raise AlreadyExists(f"model '{name}' version '{version}' is attached already")
            # First said, then looked: the keeper does so too, and one of both sees the other.
            self._reserved.update(keys)
            self._tell()
            for name, _ in keys:
                if self._keeper.has(name):
                    self.release(keys)
                    raise AlreadyExists(f"the server has a model '{name}' of its own; attach it under another name")

    def release(self, keys: Iterable[Key]) -> None:
        """Lets go of names that were kept."""
        with self.lock:
            self._reserved.difference_update(keys)
            self._tell()

    def publish(self, ready: Sequence[tuple[Key, _core.Prepared]]) -> None:
        """Makes models serve that are built."""
        for name in dict.fromkeys(name for (name, _), _ in ready):
            own = [model for (one, _), model in ready if one == name]
            self.models.swap(name, own, self._versions(name))
            self._serving.update(key for key, _ in ready if key[0] == name)

    def withdraw(self, keys: Sequence[Key]) -> None:
        """Takes models away; they finish what they have."""
        self._serving.difference_update(keys)
        for name in dict.fromkeys(name for name, _ in keys):
            self.models.swap(name, [], self._versions(name))
            self.models.forget(name)
        self.release(keys)

    def _versions(self, name: str) -> list[str]:
        return [version for one, version in self._serving if one == name]

    def _tell(self) -> None:
        self._keeper.attached = frozenset(name for name, _ in self._reserved)
