"""Import of a deployment's source.py, in a worker process or under a private name in the server."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import LoadError
from penstock.compat.modelbit._function import pickles
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.integrations.modules import IsolatedModules

__all__ = ["install_alias", "load_in_process", "load_in_worker"]


_INTEGRATION = "penstock.compat.modelbit"
"""Imported by name: it imports this module."""


def install_alias() -> None:
    """Makes `import modelbit` import this integration, whether or not the `modelbit` package is installed."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == "modelbit":
            del sys.modules[name]
    sys.modules["modelbit"] = importlib.import_module(_INTEGRATION)


def load_in_worker(deployment: Deployment) -> Callable[..., Any]:
    """Runs source.py and returns the main function.

    The process belongs to the deployment: its working directory is the deployment's folder, and modules of that folder
    and of `common/` can be imported.

    Raises:
        LoadError: source.py or the function is missing.
    """
    install_alias()
    os.chdir(deployment.folder)
    sys.path[:0] = _module_paths(deployment)
    spec = importlib.util.spec_from_file_location("source", _source_file(deployment))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["source"] = module
    spec.loader.exec_module(module)
    return _main_function(module, deployment)


def load_in_process(deployment: Deployment) -> tuple[Callable[..., Any], IsolatedModules]:
    """Runs source.py in the server's process. Returns the main function, and the modules to forget when it is unloaded.

    Working directory, `sys.path` and environment stay the server's. The modules of the deployment's folder and of
    `common/`, and the module `modelbit`, are private to the deployment.

    Raises:
        LoadError: source.py or the function is missing.
    """
    integration = importlib.import_module(_INTEGRATION)
    alias = types.ModuleType("modelbit", integration.__doc__)
    modules = IsolatedModules(
        f"{deployment.model}_{deployment.version}", _module_paths(deployment), {"modelbit": alias}
    )
    for name in integration.__all__:
        value = getattr(integration, name)
        setattr(alias, name, _bind(deployment, modules, value) if inspect.isfunction(value) else value)
    vars(alias)["login"] = lambda *_, **__: alias
    try:
        return _main_function(modules.load(_source_file(deployment)), deployment), modules
    except BaseException:
        modules.forget()
        raise


def _bind(deployment: Deployment, modules: IsolatedModules, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function of this integration, so that it runs on behalf of the deployment."""

    @functools.wraps(function)
    def bound(*args: Any, **kwargs: Any) -> Any:
        with deployment.activate(), pickles.use_modules(modules):
            return function(*args, **kwargs)

    return bound


def _module_paths(deployment: Deployment) -> list[str]:
    """Returns the folders of the deployment's modules."""
    common = str(Path(deployment.root) / "common") if deployment.root else ""
    return [deployment.folder, *([common] if common and os.path.isdir(common) else [])]


def _source_file(deployment: Deployment) -> Path:
    source = Path(deployment.folder) / "source.py"
    if not source.is_file():
        raise LoadError(f"deployment {deployment.name!r} has no source.py")
    return source


def _main_function(module: types.ModuleType, deployment: Deployment) -> Callable[..., Any]:
    function = getattr(module, deployment.main_function, None)
    if not callable(function):
        raise LoadError(f"source.py of deployment {deployment.name!r} has no function {deployment.main_function!r}")
    found: Callable[..., Any] = function
    return found
