"""Serves names by other packages, as PENSTOCK_SHIM says, in every Python that has this folder on its PYTHONPATH.

Python imports `sitecustomize` before any program, module or console script begins, and PYTHONPATH is inherited by what
it starts. A `.pth` file would do so too, but has to be installed; wrapping the command would miss its children.
The one drawback is that a folder can have its own `sitecustomize`: this one makes way for it, and then runs it.

Nothing but the standard library is imported here: most Pythons that this runs in never import one of the names.
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
        """The specification of a name that is served, or of a module below it."""
        name, dot, below = fullname.partition(".")
        if name not in self.integrations:
            return None
        real = self.integrations[name] + dot + below
        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError as error:
            if error.name is None or not (real + ".").startswith(error.name + "."):
                raise  # What is missing is something that it imports.
            found = None
        if found is None:
            if below:
                return None
            raise ModuleNotFoundError(
                f"penstock shim: {name} shall be {real}, but this Python has no such module: install penstock for "
                f"{sys.executable}",
                name=name,
            )
        package = found.submodule_search_locations is not None
        return importlib.util.spec_from_loader(fullname, Loader(found), origin=found.origin, is_package=package)


class Loader(importlib.abc.InspectLoader):
    """Gives the very module that the real name gives: its classes are the same, so instances and pickles agree."""

    def __init__(self, real: importlib.machinery.ModuleSpec) -> None:
        self.real = real

    def exec_module(self, module: ModuleType) -> None:
        """Puts the real module in the place of the one that the import system made."""
        sys.modules[module.__name__] = importlib.import_module(self.real.name)

    def is_package(self, fullname: str) -> bool:
        """True if modules can be below it."""
        return self.real.submodule_search_locations is not None

    def get_code(self, fullname: str) -> CodeType | None:
        """Its code, which `python -m` runs."""
        return self._inspected().get_code(self.real.name)

    def get_source(self, fullname: str) -> str | None:
        """Its text, which tracebacks show."""
        return self._inspected().get_source(self.real.name)

    def _inspected(self) -> importlib.abc.InspectLoader:
        if not isinstance(self.real.loader, importlib.abc.InspectLoader):
            raise ImportError(f"{self.real.name} has no code to read")
        return self.real.loader


def install(said: str) -> None:
    """Serves the names of `NAME=PACKAGE,...`, before any other finder is asked."""
    integrations = dict(one.split("=", 1) for one in said.split(",") if "=" in one)
    if integrations:
        sys.meta_path.insert(0, Finder(integrations))


def give_way() -> None:
    """Runs the `sitecustomize` that this one hides, if there is one, as if this one were not there."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != HERE]
    other = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if other is None or other.loader is None:
        return
    module = importlib.util.module_from_spec(other)
    sys.modules["sitecustomize"] = module
    other.loader.exec_module(module)


install(os.environ.get("PENSTOCK_SHIM", ""))
give_way()
