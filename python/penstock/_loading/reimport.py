"""Repeated imports of a folder's code, independent of earlier imports of it that still run.

Each import gets its own package, so that versions of a model, and the forms before and after a reload, share no
modules. Bytecode is neither read nor written: it identifies a source by its modification time in seconds, in which
a file may change twice.
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

__all__ = ["SourceLoader", "forget", "from_source", "import_folder"]

_PREFIX = "_penstock_repository_"
_serial = itertools.count(1)


def import_folder(folder: str, module: str) -> ModuleType:
    """Imports `module` of `folder` as part of a new package.

    The module can import its siblings relatively (`from . import helper`) at any time, or by their bare names
    (`import helper`) while it is imported. Both belong to this import alone.
    """
    package = f"{_PREFIX}{next(_serial)}"
    home = ModuleType(package)
    home.__path__ = [folder]
    sys.modules[package] = home
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    # The import system caches listings of folders, also by the second.
    importlib.invalidate_caches()
    try:
        with _finder.within(folder):
            return importlib.import_module(f"{package}.{module}")
    except BaseException:
        forget(package)
        raise


def forget(module: str) -> None:
    """Removes the package of an import from `sys.modules`."""
    package = module.partition(".")[0]
    for name in [*sys.modules]:
        if name == package or name.startswith(f"{package}."):
            sys.modules.pop(name, None)


class SourceLoader(SourceFileLoader):
    """Compiles the source file, and ignores bytecode."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _Search:
    """Import context of one thread: finds bare names in a folder first, and removes them from `sys.modules` at exit."""

    def __init__(self, thread_state: threading.local, folder: str) -> None:
        self._thread_state, self._folder = thread_state, folder

    def __enter__(self) -> None:
        self._thread_state.folder, self._thread_state.names = self._folder, []

    def __exit__(self, *_: object) -> None:
        for name in self._thread_state.names:
            sys.modules.pop(name, None)
        self._thread_state.folder = None


class _Finder(MetaPathFinder):
    def __init__(self) -> None:
        self._thread_state = threading.local()

    def within(self, folder: str) -> _Search:
        return _Search(self._thread_state, folder)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith(_PREFIX):
            return from_source(PathFinder.find_spec(fullname, path))
        folder: str | None = getattr(self._thread_state, "folder", None)
        if folder is None or not (path is None or all(_is_under(entry, folder) for entry in path)):
            return None
        spec = from_source(PathFinder.find_spec(fullname, [folder] if path is None else path))
        if spec is not None:
            self._thread_state.names.append(fullname)
        return spec


def from_source(spec: ModuleSpec | None) -> ModuleSpec | None:
    """The module spec, with a loader that ignores bytecode."""
    if spec is not None and type(spec.loader) is SourceFileLoader:
        spec.loader = SourceLoader(spec.loader.name, spec.loader.path)
        spec.cached = None
    return spec


def _is_under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


_finder = _Finder()
