"""Makes a process an app's own: its folder, its modules, and the name `inferless`."""

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

__all__ = ["enter", "forget_modules"]

REAL = "penstock.compat.inferless"


def enter(folder: str) -> None:
    """Makes this process the app's: it runs in the app's folder, which comes first where modules are looked for.

    A process has one app, so modules of the same name in two apps never meet.
    """
    os.chdir(folder)
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    if not any(isinstance(one, _StandIn) for one in sys.meta_path):
        sys.meta_path.insert(0, _StandIn())


def forget_modules(folder: str) -> None:
    """Forgets what was imported from the app's folder, so that it is imported anew."""
    root = Path(folder).resolve()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file and root in Path(file).resolve().parents and "site-packages" not in file:
            del sys.modules[name]
    importlib.invalidate_caches()


class _StandIn(importlib.abc.MetaPathFinder):
    """Finds `inferless` in Penstock where it is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The specification of `inferless` or of a module below it."""
        name, dot, below = fullname.partition(".")
        if name != "inferless" or (dot and not hasattr(sys.modules.get("inferless"), "__penstock_integration__")):
            return None
        installed = None if dot else importlib.machinery.PathFinder.find_spec(name, sys.path)
        if installed is not None and installed.origin is not None:
            # The real package. A mere folder of that name is none.
            return None
        real = importlib.util.find_spec(REAL + dot + below)
        if real is None:
            return None
        package = real.submodule_search_locations is not None
        return importlib.util.spec_from_loader(fullname, _Same(real.name), is_package=package)


class _Same(importlib.abc.Loader):
    """Gives the very module of another name."""

    def __init__(self, real: str) -> None:
        self.real = real

    def exec_module(self, module: ModuleType) -> None:
        """Puts the real module in the place of the one that the import system made."""
        sys.modules[module.__name__] = importlib.import_module(self.real)
