"""Imports a deployment's source.py: in a process of its own, or in the server's under a name of its own."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import penstock.compat.modelbit
from penstock import LoadError
from penstock.compat.modelbit._function import pickles
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.integrations.modules import OwnModules

__all__ = ["function_here", "function_of", "stand_in"]


def stand_in() -> None:
    """Has `import modelbit` give this integration, whether or not the real package is installed."""
    for name in [one for one in sys.modules if one == "modelbit" or one.startswith("modelbit.")]:
        del sys.modules[name]
    sys.modules["modelbit"] = sys.modules["penstock.compat.modelbit"]


def function_of(deployment: Deployment) -> Callable[..., Any]:
    """The function that answers, once source.py has run.

    The process is the deployment's own: it works in its folder, whose modules, and those of `common/`, can be imported.

    Raises:
        LoadError: there is no such file or function.
    """
    stand_in()
    os.chdir(deployment.folder)
    sys.path[:0] = _homes(deployment)
    spec = importlib.util.spec_from_file_location("source", _source(deployment))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["source"] = module
    spec.loader.exec_module(module)
    return _main(module, deployment)


def function_here(deployment: Deployment) -> tuple[Callable[..., Any], OwnModules]:
    """The same in the server's process, with the modules that are to be forgotten once it is not served any more.

    Working folder, `sys.path` and environment stay the server's. The modules of the deployment's folder and of
    `common/` are its own, and so is its `modelbit`.

    Raises:
        LoadError: there is no such file or function.
    """
    integration = types.ModuleType("modelbit", penstock.compat.modelbit.__doc__)
    modules = OwnModules(f"{deployment.model}_{deployment.version}", _homes(deployment), {"modelbit": integration})
    for name in penstock.compat.modelbit.__all__:
        value = getattr(penstock.compat.modelbit, name)
        setattr(integration, name, _asked_by(deployment, modules, value) if inspect.isfunction(value) else value)
    vars(integration)["login"] = lambda *_, **__: integration
    try:
        return _main(modules.load(_source(deployment)), deployment), modules
    except BaseException:
        modules.forget()
        raise


def _asked_by(deployment: Deployment, modules: OwnModules, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of this integration that knows who asks."""

    @functools.wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        with deployment.asking(), pickles.finding(modules):
            return function(*args, **kwargs)

    return asked


def _homes(deployment: Deployment) -> list[str]:
    """Where its modules are."""
    common = str(Path(deployment.root) / "common") if deployment.root else ""
    return [deployment.folder, *([common] if common and os.path.isdir(common) else [])]


def _source(deployment: Deployment) -> Path:
    source = Path(deployment.folder) / "source.py"
    if not source.is_file():
        raise LoadError(f"deployment {deployment.name!r} has no source.py")
    return source


def _main(module: types.ModuleType, deployment: Deployment) -> Callable[..., Any]:
    function = getattr(module, deployment.main_function, None)
    if not callable(function):
        raise LoadError(f"source.py of deployment {deployment.name!r} has no function {deployment.main_function!r}")
    made: Callable[..., Any] = function
    return made
