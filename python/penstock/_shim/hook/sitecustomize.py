"""Import hook of `penstock shim`: imports Penstock's packages under the names in the variable PENSTOCK_SHIM.

Python imports `sitecustomize` before any program, module or console script begins, and child processes inherit
PYTHONPATH. A `.pth` file would have to be installed; a wrapper of the command would miss the children. Another
`sitecustomize` on the path is hidden by this one, which therefore runs it.

This file imports only the standard library: most interpreters that run it never import one of the names.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))


class Finder(importlib.abc.MetaPathFinder):
    """Finds `pytriton.triton` where `penstock.compat.pytriton.triton` is."""

    def __init__(self, integrations: dict[str, str]) -> None:
        self.integrations = integrations

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a name in PENSTOCK_SHIM, or of a module below it; None for other names."""
        name, dot, below = fullname.partition(".")
        if name not in self.integrations:
            return None
        real = self.integrations[name] + dot + below
        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError as error:
            if error.name is None or not (real + ".").startswith(error.name + "."):
                raise  # The module exists; one that it imports is missing.
            found = None
        if found is None:
            if below:
                return None
            raise ModuleNotFoundError(
                f"penstock shim: {name} is served by {real}, which this Python does not have: install penstock for "
                f"{sys.executable}",
                name=name,
            )
        package = found.submodule_search_locations is not None
        return importlib.util.spec_from_loader(fullname, Loader(found), origin=found.origin, is_package=package)


class Loader(importlib.abc.InspectLoader):
    """Loads the module object of the real name: both names have the same classes, so instances and pickles agree."""

    def __init__(self, real: importlib.machinery.ModuleSpec) -> None:
        self.real = real

    def exec_module(self, module: ModuleType) -> None:
        """Replaces the module that the import system created by the real one."""
        sys.modules[module.__name__] = importlib.import_module(self.real.name)

    def is_package(self, fullname: str) -> bool:
        """True if the module is a package."""
        return self.real.submodule_search_locations is not None

    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code, for `python -m`."""
        return self._inspected().get_code(self.real.name)

    def get_source(self, fullname: str) -> str | None:
        """The module's source, for tracebacks."""
        return self._inspected().get_source(self.real.name)

    def _inspected(self) -> importlib.abc.InspectLoader:
        if not isinstance(self.real.loader, importlib.abc.InspectLoader):
            raise ImportError(f"{self.real.name} has no code to read")
        return self.real.loader


def install(names: str) -> None:
    """Installs the finder for `NAME=PACKAGE,...`, before all other finders."""
    integrations = dict(one.split("=", 1) for one in names.split(",") if "=" in one)
    if integrations:
        sys.meta_path.insert(0, Finder(integrations))


def run_hidden() -> None:
    """Runs the `sitecustomize` that this file hides, if there is one."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != HERE]
    other = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if other is None or other.loader is None:
        return
    module = importlib.util.module_from_spec(other)
    sys.modules["sitecustomize"] = module
    other.loader.exec_module(module)


install(os.environ.get("PENSTOCK_SHIM", ""))
run_hidden()
