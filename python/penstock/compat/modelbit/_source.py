"""Imports a deployment's source.py, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import LoadError
from penstock.compat.modelbit._deployment import Deployment

__all__ = ["function_of", "stand_in"]


def stand_in() -> None:
    """Has `import modelbit` give this door, whether or not the real package is installed."""
    for name in [one for one in sys.modules if one == "modelbit" or one.startswith("modelbit.")]:
        del sys.modules[name]
    sys.modules["modelbit"] = sys.modules["penstock.compat.modelbit"]


def function_of(deployment: Deployment) -> Callable[..., Any]:
    """The function that answers, once source.py has run.

    The process is the deployment's own: it works in its folder, whose modules, and those of `common/`, can be imported.

    Raises:
        LoadError: there is no such file or function.
    """
    import penstock.compat.modelbit  # noqa: F401

    stand_in()
    folder = Path(deployment.folder)
    os.chdir(folder)
    common = [str(Path(deployment.root) / "common")] if deployment.root else []
    sys.path[:0] = [str(folder), *(one for one in common if os.path.isdir(one))]
    source = folder / "source.py"
    if not source.is_file():
        raise LoadError(f"deployment {deployment.name!r} has no source.py")
    spec = importlib.util.spec_from_file_location("source", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["source"] = module
    spec.loader.exec_module(module)
    function = getattr(module, deployment.main_function, None)
    if not callable(function):
        raise LoadError(f"source.py of deployment {deployment.name!r} has no function {deployment.main_function!r}")
    made: Callable[..., Any] = function
    return made
