"""Set-up of an app's process: working directory, import path, and the module name `inferless`."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

__all__ = ["REAL", "forget_modules", "set_up"]

REAL = "penstock.compat.inferless"


def set_up(folder: str) -> None:
    """Makes this process the app's: working directory and first import path are the app's folder.

    A process has one app, so modules of equal names in two apps do not collide.
    """
    os.chdir(folder)
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    if not any(isinstance(one, _AliasFinder) for one in sys.meta_path):
        sys.meta_path.insert(0, _AliasFinder())


def forget_modules(folder: str) -> None:
    """Removes the modules of the app's folder from `sys.modules`, so that they are imported again."""
    root = Path(folder).resolve()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file and root in Path(file).resolve().parents and "site-packages" not in file:
            del sys.modules[name]
    importlib.invalidate_caches()


class _AliasFinder(importlib.abc.MetaPathFinder):
    """Finds `inferless` in Penstock unless the package is installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of `inferless` or of a module below it; None for other names."""
        name, dot, below = fullname.partition(".")
        if name != "inferless" or (dot and not hasattr(sys.modules.get("inferless"), "__penstock_integration__")):
            return None
        installed = None if dot else importlib.machinery.PathFinder.find_spec(name, sys.path)
        if installed is not None and installed.origin is not None:
            # The installed package. A namespace package, which is a folder of that name, has no origin.
            return None
        real = importlib.util.find_spec(REAL + dot + below)
        if real is None:
            return None
        package = real.submodule_search_locations is not None
        return importlib.util.spec_from_loader(fullname, _AliasLoader(real.name), is_package=package)


class _AliasLoader(importlib.abc.Loader):
    """Loads the module object of another name."""

    def __init__(self, real: str) -> None:
        self.real = real

    def exec_module(self, module: ModuleType) -> None:
        """Replaces the module that the import system created by the real one."""
        sys.modules[module.__name__] = importlib.import_module(self.real)
