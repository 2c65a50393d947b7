"""Where an app's modules come from: the whole process, which is its own, or names of its own in the server's."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol

from penstock.compat.inferless._app import process_setup
from penstock.integrations.modules import OwnModules

__all__ = ["Modules", "OfProcess", "OfServer"]

_CONSTANTS = ("BATCH_SIZE", "BATCH_WINDOW", "IS_STREAMING_OUTPUT")
"""Variables that `@inferless.config` leaves to say how the app is called."""


class Modules(Protocol):
    """The modules of one app."""

    def find(self, name: str) -> ModuleType:
        """Imports one."""

    def forget(self) -> None:
        """Has the next `find` run the files anew."""

    def left(self) -> Mapping[str, str]:
        """The variables of the environment that importing has left."""


class OfProcess:
    """The modules of this process, which becomes the app's: it runs in the app's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        process_setup.enter(self._folder)

    def find(self, name: str) -> ModuleType:
        """Imports one."""
        return importlib.import_module(name)

    def forget(self) -> None:
        """Has the next `find` run the files anew."""
        process_setup.forget_modules(self._folder)

    def left(self) -> Mapping[str, str]:
        """The variables of the environment that importing has left."""
        return dict(os.environ)


class OfServer:
    """Modules under names of their own in the server's process, so that apps there do not see each other's."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder = name, folder
        self._own = self._new()
        self._left: dict[str, str] = {}

    def find(self, name: str) -> ModuleType:
        """Imports one."""
        if name != "app":
            return self._own.find(name)
        with _IMPORTING:
            # The variables are everybody's: what the app leaves is its own, and does not stay.
            before = _taken()
            os.environ.update(before)
            try:
                found = self._own.find(name)
            finally:
                self._left.update(_taken())
                os.environ.update(before)
        return found

    def forget(self) -> None:
        """Has the next `find` run the files anew."""
        self._own.forget()
        self._own, self._left = self._new(), {}

    def left(self) -> Mapping[str, str]:
        """The variables of the environment that importing has left."""
        return self._left

    def _new(self) -> OwnModules:
        return OwnModules(self._name, [self._folder], {} if _is_installed() else {"inferless": _stand_in()})


_IMPORTING = threading.RLock()


def _taken() -> dict[str, str]:
    return {name: os.environ.pop(name) for name in _CONSTANTS if name in os.environ}


def _is_installed() -> bool:
    found = importlib.machinery.PathFinder.find_spec("inferless")
    return found is not None and found.origin is not None


def _stand_in() -> ModuleType:
    return importlib.import_module(process_setup.REAL)
