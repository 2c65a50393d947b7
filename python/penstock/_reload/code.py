"""The code that the command line serves: imported once, and anew when it changes."""

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
from penstock._loading.reimport import freshly
from penstock.integrations._targets import Loader, files_below

__all__ = ["Code"]

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INSTALLED = {os.path.realpath(path) for path in sysconfig.get_paths().values()}


class Code:
    """The models of some targets, and the project's files that they were imported from.

    Args:
        targets: Each `PATH[:object]` or `module[:object]`.
        loader: What makes models of a target.
    """

    def __init__(self, targets: Sequence[str], loader: Loader | None = None) -> None:
        self.targets = list(targets)
        self._loader = loader or Loader()
        self._before = set(sys.modules)
        """Modules of nobody's project: they were there before the first import."""
        self._finder = _Finder()

    def load(self) -> list[Any]:
        """The models of all targets; of files that are imported already, those that are there.

        Raises:
            LoadError: as `Loader.load`.
            StartupError: as `Loader.load`.
        """
        return [one for target in self.targets for one in self._loader.load(target)]

    def load_anew(self) -> list[Any]:
        """Imports the project's files again, as they are now. If that fails, those of before stay imported."""
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
        """Where the project's files lie."""
        return sorted({os.path.dirname(path) for path in self.files()}, key=len)

    def files(self) -> set[str]:
        """The project's files: those that are imported, and those that the last import came to before it failed."""
        named = {os.path.realpath(path) for target in self.targets if (path := targets.file_of(target))}
        below = {file for target in self.targets for file in files_below(target)}
        return named | below | {_file(sys.modules[name]) for name in self._modules()} | self._finder.seen

    def _modules(self) -> list[str]:
        # A copy: handlers import while this looks.
        modules = [*sys.modules.items()]
        return [name for name, one in modules if name not in self._before and _is_of_project(_file(one))]


class _Finder(MetaPathFinder):
    """While a thread is in it, finds the project's modules without their bytecode, and notes their files."""

    def __init__(self) -> None:
        self._here = threading.local()
        self.seen: set[str] = set()

    def __enter__(self) -> None:
        self._here.active = True
        self.seen = set()
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        self._here.active = False
        sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not getattr(self._here, "active", False):
            return None
        spec = PathFinder.find_spec(fullname, path)
        file = os.path.realpath(spec.origin) if spec is not None and spec.origin else ""
        if not _is_of_project(file):
            return None
        self.seen.add(file)
        return freshly(spec)


def _file(module: ModuleType) -> str:
    found = getattr(module, "__file__", None)
    return os.path.realpath(found) if isinstance(found, str) else ""


def _is_of_project(file: str) -> bool:
    """Whether a file is the user's own: neither installed, nor ours, nor compiled."""
    if not file.endswith(".py") or _is_in(file, (_OWN,)):
        return False
    return not {"site-packages", "dist-packages"} & set(file.split(os.sep)) and not _is_in(file, _INSTALLED)


def _is_in(file: str, folders: Iterable[str]) -> bool:
    return any(file.startswith(folder + os.sep) for folder in folders)
