"""Modules of an app under a name of their own, so that apps in one process do not see each other's."""

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

__all__ = ["OwnModules"]


class OwnModules:
    """Imports modules of an app, which only the app sees.

    Two apps in one process may each have an `app.py` and a `helpers.py`. `import helpers` in a module of the app gives
    the app's own one, at whatever time it runs; what the app's folders do not have is imported as always. `sys.path`
    is left alone, and in `sys.modules` the app's modules have names of their own. Only `import` statements know of
    them: `importlib.import_module("helpers")` does not, `find` does.

    Args:
        name: What the modules' names begin with, so that tracebacks tell apps apart; any text.
        folders: Where modules are looked for, in this order.
        given: Modules that the app gets under these names, whatever is installed.

    Example:
        >>> modules = OwnModules("first", [folder])
        >>> modules.load(folder / "app.py").handler
    """

    def __init__(
        self, name: str, folders: Sequence[str | Path], given: Mapping[str, types.ModuleType] | None = None
    ) -> None:
        plain = "".join(one if one.isalnum() else "_" for one in name)
        self.name = f"_own{next(_COUNT)}_{plain}"
        """The package that they are in."""
        self._folders = [str(one) for one in folders]
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
        """Imports a file as the module that it is named after, wherever it lies.

        Raises:
            ImportError: it is no module's file; or whatever its code raises.
        """
        path = Path(path)
        name = f"{self.name}.{path.stem}"
        if (known := sys.modules.get(name)) is not None:
            return known
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no module's file")
        self._prepared(spec)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        self._known[path.stem] = True
        return module

    def find(self, name: str) -> types.ModuleType:
        """The module that `import` gives the app under a name, such as `helpers` or `package.module`.

        Raises:
            ImportError: there is none; or whatever its code raises.
        """
        found: types.ModuleType = self._import(name, fromlist=("__name__",))
        return found

    def forget(self) -> None:
        """Lets go of the modules: another import runs their code again. What is in use goes on."""
        _APPS.pop(self.name, None)
        for name in [one for one in sys.modules if one == self.name or one.startswith(f"{self.name}.")]:
            del sys.modules[name]

    def _prepared(self, spec: ModuleSpec) -> ModuleSpec:
        """Has a module that is about to be run import as the app does."""
        loader: Any = spec.loader
        if loader is not None and hasattr(loader, "exec_module"):
            run = loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                # Before the code runs: its functions keep what is here then.
                vars(module).setdefault("__builtins__", self._builtins)
                run(module)

            loader.exec_module = exec_module
        return spec

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls them
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """What `import` does in the app's modules."""
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
        """Whether a name is a module of the app's: as Python has it, a mere folder gives way to what is installed."""
        known = self._known.get(top)
        if known is None:
            found = PathFinder.find_spec(f"{self.name}.{top}", self._folders)
            known = found is not None and (found.origin is not None or not _is_installed(top))
            self._known[top] = known
        return known


class _Finder(MetaPathFinder):
    """Finds the modules of all apps."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        app = _APPS.get(fullname.partition(".")[0])
        if app is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        return None if spec is None else app._prepared(spec)


def _is_installed(top: str) -> bool:
    return top in sys.modules or PathFinder.find_spec(top) is not None


_APPS: dict[str, OwnModules] = {}
_COUNT = itertools.count(1)
_FINDER = _Finder()
