"""Import of a function's code. The module is imported once, so that the handler sees the globals that init sets."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from penstock.compat.openinference._sources.fetch import FetchedCode
from penstock.errors import LoadError

if TYPE_CHECKING:
    from penstock.integrations.modules import IsolatedModules

__all__ = ["import_folders", "load_functions"]


def import_folders(code: FetchedCode) -> list[str]:
    """Returns the folders of a function's imports, in search order."""
    return [str(code.root.resolve()), *(str(folder.resolve()) for folder in reversed(code.files))]


def load_functions(
    code: FetchedCode, init_function: str | None, modules: IsolatedModules | None = None
) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """Returns the handler and the init function.

    Args:
        code: Location of the code.
        init_function: Name of the init function; None without one.
        modules: Isolated modules, if the process runs other code too. Otherwise the folders are added to `sys.path`.

    Raises:
        LoadError: a function is missing, or the import fails. `__cause__` is the exception of the import.
    """
    try:
        module = _import_module(code) if modules is None else modules.find(code.module)
    except (Exception, SystemExit) as error:
        raise LoadError(f"cannot import {code.module}: {type(error).__name__}: {error}") from error
    handler = _function(module, code.function, "handler")
    return handler, None if init_function is None else _function(module, init_function, "init_function")


def _import_module(code: FetchedCode) -> ModuleType:
    folders = import_folders(code)
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    name, root = code.module, Path(folders[0])
    module = importlib.import_module(name)
    if _is_module_of(module, root):
        return module
    # A standard or installed module has the same name as the user's file.
    path = root / Path(*name.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    spec = importlib.util.spec_from_file_location(f"function_{name.replace('.', '_')}", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_module_of(module: ModuleType, root: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(root)


def _function(module: ModuleType, name: str, role: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        available = [folder for folder, value in vars(module).items() if callable(value) and not folder.startswith("_")]
        raise LoadError(f"{role}: module {module.__name__!r} has no function {name!r}, only {', '.join(available)}")
    function: Callable[..., Any] = found
    return function
