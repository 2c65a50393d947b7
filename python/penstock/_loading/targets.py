"""Models of the user's files and modules, by `PATH[:object]` or `module[:object]`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from penstock._loading.reimport import SourceLoader
from penstock._model.model import Model
from penstock._model.pipeline import Pipeline
from penstock._runtime.tracebacks import is_ours
from penstock.errors import LoadError, StartupError

_loading = threading.local()
"""`path`: the file or module that this thread is importing; empty outside an import."""


def load(target: str) -> list[Any]:
    """The models of `PATH[:object]` or `module[:object]`; without an object, all models of the module.

    Raises:
        LoadError: there is no such file or module, or its import failed; `__cause__` is the user's own exception.
        StartupError: there is no such object in it, or no model.
    """
    path, name = _split(target)
    module = _import(path)
    if name:
        value = _named(module, path, name)
        return list(value) if isinstance(value, (list, tuple)) else [value]
    # By identity: a model with two names in the module is served once.
    models = {id(value): value for value in vars(module).values() if isinstance(value, (Model, Pipeline))}
    if not models:
        raise StartupError(f"{path} has no @model; decorate one, or name a function or class, as in {path}:NAME")
    return list(models.values())


def file_of(target: str) -> str | None:
    """The file of a target; None for a module."""
    path, _ = _split(target)
    return path if _is_file(path) else None


def load_object(path: str, name: str) -> Any:
    """One object of a file or module.

    Raises:
        LoadError: the import failed; `__cause__` is the user's own exception.
        StartupError: there is no such object in it.
    """
    return _named(_import(path), path, name)


def refuse_serve_while_loading() -> None:
    """Refuses `serve()` at the top level of a file that the command line imports, where it would block.

    Raises:
        StartupError: this thread is importing a target.
    """
    if path := getattr(_loading, "path", ""):
        raise StartupError(f"{path} calls serve() when it is imported; put the call under `if __name__ == '__main__':`")


def _split(target: str) -> tuple[str, str]:
    path, separator, name = target.rpartition(":")
    if not separator or os.sep in name:
        # A colon in a folder's name is not a separator.
        return target, ""
    if not name:
        raise StartupError(f"{target!r} names no object after the colon; write {path}:NAME, or {path} alone")
    return path, name


def _import(path: str) -> ModuleType:
    is_file = _is_file(path)
    if is_file and not os.path.isfile(path):
        raise LoadError(f"there is no file {path}")
    try:
        with marked(path):
            return _import_file(path) if is_file else _import_module(path)
    except StartupError as error:
        position = _position(error)
        raise type(error)(f"{error}{position}") from None
    except (Exception, SystemExit) as error:
        raise LoadError(f"cannot import {path}: {_shown(error)}") from error


def _is_file(path: str) -> bool:
    return path.endswith(".py") or os.sep in path


def _import_file(path: str) -> ModuleType:
    full = os.path.realpath(path)
    for module in list(sys.modules.values()):
        # Several objects of one file share its module.
        if getattr(module, "__penstock_file__", None) == full:
            return module
    # Siblings of the file can be imported, as with `python FILE`.
    folder = os.path.dirname(full)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = os.path.basename(full).removesuffix(".py")
    if name in sys.modules:
        name = f"__penstock_{name}_{len(sys.modules)}__"
    if not full.endswith(".py"):
        raise LoadError(f"{path} is not a Python file; its name must end in .py")
    # Without bytecode, which a second change within a second does not invalidate.
    spec = importlib.util.spec_from_file_location(name, full, loader=SourceLoader(name, full))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__penstock_file__"] = full
    # Dataclasses and type hints look up their module during execution.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_module(path: str) -> ModuleType:
    # For a command, sys.path begins with the command's folder. Users expect theirs, as with `python -m`.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(path)


def _named(module: ModuleType, path: str, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            models = [key for key, value in vars(module).items() if isinstance(value, (Model, Pipeline))]
            raise StartupError(f"{path} has no object {name!r}; its models are {', '.join(models) or 'none'}")
        value = getattr(value, part)
    return value


@contextlib.contextmanager
def marked(path: str) -> Iterator[None]:
    """Marks this thread as importing `path`."""
    before, _loading.path = getattr(_loading, "path", ""), path
    try:
        yield
    finally:
        _loading.path = before


def _position(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_ours(frame.filename)]
    return f" ({os.path.relpath(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""


def _shown(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it called sys.exit({error.code!r}) when it was imported"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
