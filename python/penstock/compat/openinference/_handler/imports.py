"""The functions of a source: imported once, so that what init sets in its module is there for the handler."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from penstock.compat.openinference._sources.fetch import Code
from penstock.errors import LoadError

if TYPE_CHECKING:
    from penstock.integrations.modules import OwnModules

__all__ = ["folders_of", "functions_of"]


def folders_of(code: Code) -> list[str]:
    """Where a function's imports are looked for, in this order."""
    return [str(code.root.resolve()), *(str(one.resolve()) for one in reversed(code.files))]


def functions_of(
    code: Code, init_function: str | None, modules: OwnModules | None = None
) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """The handler and the init function.

    Args:
        code: Where they are.
        init_function: The name of the second; None for none.
        modules: What imports them, where other code is in the process. Else the folders are on the path of imports from
            now on.

    Raises:
        LoadError: there is no such function; `__cause__` is what importing the module raised, if it did.
    """
    try:
        module = _imported(code) if modules is None else modules.find(code.module)
    except (Exception, SystemExit) as error:
        raise LoadError(f"cannot import {code.module}: {type(error).__name__}: {error}") from error
    handler = _function(module, code.function, "handler")
    return handler, None if init_function is None else _function(module, init_function, "init_function")


def _imported(code: Code) -> ModuleType:
    folders = folders_of(code)
    sys.path[:0] = [one for one in folders if one not in sys.path]
    name, root = code.module, Path(folders[0])
    module = importlib.import_module(name)
    if _is_below(module, root):
        return module
    # A module of Python's, or of a package that is installed, has the name of the user's file.
    path = root / Path(*name.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    spec = importlib.util.spec_from_file_location(f"function_{name.replace('.', '_')}", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_below(module: ModuleType, root: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(root)


def _function(module: ModuleType, name: str, what: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        known = [one for one, value in vars(module).items() if callable(value) and not one.startswith("_")]
        raise LoadError(f"{what}: module {module.__name__!r} has no function {name!r}; there are {', '.join(known)}")
    function: Callable[..., Any] = found
    return function
