"""`IsolatedModules`: modules of one app, hidden from other apps in the same process."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import itertools
import sys
import types
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

__all__ = ["IsolatedModules"]


class IsolatedModules:
    """Imports modules of an app that only the app can import.

    Two apps in one process may each have an `app.py` and a `helpers.py`. `import helpers` in a module of the app
    imports the app's file, at any time. Modules that the app's folders lack are imported as usual. `sys.path` does not
    change, and `sys.modules` has the app's modules under private names. This affects `import` statements and `find`,
    but not `importlib.import_module("helpers")`.

    Args:
        name: Prefix of the modules' private names, to identify the app in tracebacks; any text.
        folders: Folders of modules, in search order.
        given: Modules that the app imports under these names, in place of installed ones.

    Example:
        >>> modules = IsolatedModules("first", [folder])
        >>> modules.load(folder / "app.py").handler
    """

    def __init__(
        self, name: str, folders: Sequence[str | Path], given: Mapping[str, types.ModuleType] | None = None
    ) -> None:
        plain = "".join(character if character.isalnum() else "_" for character in name)
        self.name = f"_own{next(_COUNT)}_{plain}"
        """The private package of the modules."""
        self._folders = [str(folder) for folder in folders]
        self._given = dict(given or {})
        self._known: dict[str, bool] = {}
        self._builtins = {**vars(builtins), "__import__": self._import}
        package = types.ModuleType(self.name)
        package.__spec__ = ModuleSpec(self.name, None, is_package=True)
        package.__path__ = package.__spec__.submodule_search_locations = self._folders
        importlib.invalidate_caches()
        _APPS[self.name] = self
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
        sys.modules[self.name] = package

    def load(self, path: str | Path) -> types.ModuleType:
        """Imports a file in any folder, as a module with the name of the file.

        Raises:
            ImportError: not a Python file; or any exception of its code.
        """
        path = Path(path)
        name = f"{self.name}.{path.stem}"
        if (known := sys.modules.get(name)) is not None:
            return known
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a file of a Python module")
        self._isolate(spec)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        self._known[path.stem] = True
        return module

    def find(self, name: str) -> types.ModuleType:
        """The module that the app imports under a name, such as `helpers` or `package.module`.

        Raises:
            ImportError: there is no such module; or any exception of its code.
        """
        module: types.ModuleType = self._import(name, fromlist=("__name__",))
        return module

    def forget(self) -> None:
        """Removes the modules from `sys.modules`: another import runs their code again. References stay valid."""
        _APPS.pop(self.name, None)
        # A copy: other threads import meanwhile.
        for name in [*sys.modules]:
            if name == self.name or name.startswith(f"{self.name}."):
                del sys.modules[name]

    def _isolate(self, spec: ModuleSpec) -> ModuleSpec:
        """Lets a module use the app's import when it is executed."""
        loader: Any = spec.loader
        if loader is not None and hasattr(loader, "exec_module"):
            run = loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                # Before execution: functions take the builtins from their creation.
                vars(module).setdefault("__builtins__", self._builtins)
                run(module)

            loader.exec_module = exec_module
        return spec

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names of `__import__`
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """`__import__` for the app's modules."""
        top, _, below = name.partition(".")
        given = None if level else self._given.get(top)
        if given is not None and not below:
            return given
        if given is None and (level or not self._has(top)):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        home = f"{self.name}.{top}" if given is None else given.__name__
        full = f"{home}.{below}" if below else home
        if fromlist:
            return builtins.__import__(full, fromlist=fromlist)
        importlib.import_module(full)
        return sys.modules[home]

    def _has(self, top: str) -> bool:
        """True if a name is a module of the app. As in Python, an installed module precedes a namespace package."""
        known = self._known.get(top)
        if known is None:
            spec = PathFinder.find_spec(f"{self.name}.{top}", self._folders)
            known = spec is not None and (spec.origin is not None or not _is_installed(top))
            self._known[top] = known
        return known


class _Finder(MetaPathFinder):
    """Import hook for the modules of all apps."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        app = _APPS.get(fullname.partition(".")[0])
        if app is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        return None if spec is None else app._isolate(spec)


def _is_installed(top: str) -> bool:
    return top in sys.modules or PathFinder.find_spec(top) is not None


_APPS: dict[str, IsolatedModules] = {}
_COUNT = itertools.count(1)
_FINDER = _Finder()
