"""Import of an app's modules, in its own process or under private names in the server."""

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
from penstock.integrations.modules import IsolatedModules

__all__ = ["AppModules", "IsolatedAppModules", "ProcessModules"]

_CONSTANTS = ("BATCH_SIZE", "BATCH_WINDOW", "IS_STREAMING_OUTPUT")
"""Environment variables set by `@inferless.config`."""


class AppModules(Protocol):
    """The modules of one app."""

    def find(self, name: str) -> ModuleType:
        """Imports a module."""

    def forget(self) -> None:
        """Drops the modules, so that the next `find` imports them again."""

    def config_variables(self) -> Mapping[str, str]:
        """Returns the variables that `@inferless.config` set on import."""


class ProcessModules:
    """Modules of a process that belongs to the app; its working directory becomes the app's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        process_setup.set_up(self._folder)

    def find(self, name: str) -> ModuleType:
        """Imports a module."""
        return importlib.import_module(name)

    def forget(self) -> None:
        """Drops the modules, so that the next `find` imports them again."""
        process_setup.forget_modules(self._folder)

    def config_variables(self) -> Mapping[str, str]:
        """Returns the variables that `@inferless.config` set on import."""
        return dict(os.environ)


class IsolatedAppModules:
    """Modules in the server's process under private names, so that apps do not see each other's."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder = name, folder
        self._isolated = self._create()
        self._variables: dict[str, str] = {}

    def find(self, name: str) -> ModuleType:
        """Imports a module."""
        if name != "app":
            return self._isolated.find(name)
        with _IMPORTING:
            # Environment variables are shared by all apps: the ones set by this app are recorded and removed.
            before = _pop_config_variables()
            os.environ.update(before)
            try:
                found = self._isolated.find(name)
            finally:
                self._variables.update(_pop_config_variables())
                os.environ.update(before)
        return found

    def forget(self) -> None:
        """Drops the modules, so that the next `find` imports them again."""
        self._isolated.forget()
        self._isolated, self._variables = self._create(), {}

    def config_variables(self) -> Mapping[str, str]:
        """Returns the variables that `@inferless.config` set on import."""
        return self._variables

    def _create(self) -> IsolatedModules:
        return IsolatedModules(self._name, [self._folder], {} if _is_installed() else {"inferless": _alias()})


_IMPORTING = threading.RLock()


def _pop_config_variables() -> dict[str, str]:
    return {name: os.environ.pop(name) for name in _CONSTANTS if name in os.environ}


def _is_installed() -> bool:
    found = importlib.machinery.PathFinder.find_spec("inferless")
    return found is not None and found.origin is not None


def _alias() -> ModuleType:
    return importlib.import_module(process_setup.REAL)
