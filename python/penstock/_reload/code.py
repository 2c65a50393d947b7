"""`Code`: the code that the command line serves; imports it, and imports it again when it changes."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import threading
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from penstock._loading import targets
from penstock._loading.reimport import from_source
from penstock.integrations._targets import Loader, files_below

__all__ = ["Code"]

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INSTALLED = {os.path.realpath(path) for path in sysconfig.get_paths().values()}


class Code:
    """The models of targets, and the project's files that they were imported from.

    Args:
        targets: Targets of the form `PATH[:object]` or `module[:object]`.
        loader: Loads the models of a target.
    """

    def __init__(self, targets: Sequence[str], loader: Loader | None = None) -> None:
        self.targets = list(targets)
        self._loader = loader or Loader()
        self._before = set(sys.modules)
        """Modules that were imported before the project."""
        self._finder = _Finder()

    def load(self) -> list[Any]:
        """The models of all targets. Files that are imported already are not imported again.

        Raises:
            LoadError: as `Loader.load`.
            StartupError: as `Loader.load`.
        """
        return [model for target in self.targets for model in self._loader.load(target)]

    def reload(self) -> list[Any]:
        """Imports the project's files again. If that fails, the old modules stay imported."""
        old = {name: sys.modules.pop(name) for name in self._modules()}
        importlib.invalidate_caches()
        try:
            with self._finder:
                return self.load()
        except BaseException:
            for name in self._modules():
                sys.modules.pop(name, None)
            sys.modules.update(old)
            raise

    def folders(self) -> list[str]:
        """The folders of the project's files, outermost first."""
        return sorted({os.path.dirname(path) for path in self.files()}, key=len)

    def files(self) -> set[str]:
        """The project's imported files, and those that the last import reached before it failed."""
        named = {os.path.realpath(path) for target in self.targets if (path := targets.file_of(target))}
        below = {file for target in self.targets for file in files_below(target)}
        return named | below | {_file(sys.modules[name]) for name in self._modules()} | self._finder.seen

    def _modules(self) -> list[str]:
        # A copy: handlers may import modules meanwhile.
        modules = [*sys.modules.items()]
        return [name for name, module in modules if name not in self._before and _is_of_project(_file(module))]


class _Finder(MetaPathFinder):
    """Import hook for one thread: imports the project's modules from source, and records their files."""

    def __init__(self) -> None:
        self._thread_state = threading.local()
        self.seen: set[str] = set()

    def __enter__(self) -> None:
        self._thread_state.active = True
        self.seen = set()
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        self._thread_state.active = False
        sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not getattr(self._thread_state, "active", False):
            return None
        spec = PathFinder.find_spec(fullname, path)
        file = os.path.realpath(spec.origin) if spec is not None and spec.origin else ""
        if not _is_of_project(file):
            return None
        self.seen.add(file)
        return from_source(spec)


def _file(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return os.path.realpath(file) if isinstance(file, str) else ""


def _is_of_project(file: str) -> bool:
    """True if a file is the user's own source: neither installed nor part of Penstock."""
    if not file.endswith(".py") or _is_in(file, (_OWN,)):
        return False
    return not {"site-packages", "dist-packages"} & set(file.split(os.sep)) and not _is_in(file, _INSTALLED)


def _is_in(file: str, folders: Iterable[str]) -> bool:
    return any(file.startswith(folder + os.sep) for folder in folders)
