"""Imports a folder's code anew each time, beside any other copy of it that still runs.

Each import gets a package of its own, so that nothing is shared between two versions of a model, or
between a model and its next form. Bytecode is neither read nor written: it is known by the second in
which a file changed, and two changes may fall into one.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

__all__ = ["FreshLoader", "forget", "freshly", "import_folder"]

_PREFIX = "_penstock_repository_"
_serial = itertools.count(1)


def import_folder(folder: str, module: str) -> ModuleType:
    """Imports `module` of `folder` as part of a new package.

    Its siblings can be imported relatively (`from . import helper`), then and later; or by their bare
    names (`import helper`) while it is imported. Both are this import's own.
    """
    package = f"{_PREFIX}{next(_serial)}"
    home = ModuleType(package)
    home.__path__ = [folder]
    sys.modules[package] = home
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    # Listings of folders are kept by the second too.
    importlib.invalidate_caches()
    try:
        with _finder.within(folder):
            return importlib.import_module(f"{package}.{module}")
    except BaseException:
        forget(package)
        raise


def forget(module: str) -> None:
    """Takes an import, and all that belongs to it, out of the table of modules."""
    package = module.partition(".")[0]
    for name in [*sys.modules]:
        if name == package or name.startswith(f"{package}."):
            sys.modules.pop(name, None)


class FreshLoader(SourceFileLoader):
    """Compiles what the file holds now."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _Within:
    """While a thread is in it, bare names are looked for in a folder first; and are nobody else's afterwards."""

    def __init__(self, here: threading.local, folder: str) -> None:
        self._here, self._folder = here, folder

    def __enter__(self) -> None:
        self._here.folder, self._here.names = self._folder, []

    def __exit__(self, *_: object) -> None:
        for name in self._here.names:
            sys.modules.pop(name, None)
        self._here.folder = None


class _Finder(MetaPathFinder):
    def __init__(self) -> None:
        self._here = threading.local()

    def within(self, folder: str) -> _Within:
        return _Within(self._here, folder)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith(_PREFIX):
            return freshly(PathFinder.find_spec(fullname, path))
        folder: str | None = getattr(self._here, "folder", None)
        if folder is None or not (path is None or all(_is_under(one, folder) for one in path)):
            return None
        spec = freshly(PathFinder.find_spec(fullname, [folder] if path is None else path))
        if spec is not None:
            self._here.names.append(fullname)
        return spec


def freshly(spec: ModuleSpec | None) -> ModuleSpec | None:
    """The same module, compiled from what its file holds now."""
    if spec is not None and type(spec.loader) is SourceFileLoader:
        spec.loader = FreshLoader(spec.loader.name, spec.loader.path)
        spec.cached = None
    return spec


def _is_under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


_finder = _Finder()
