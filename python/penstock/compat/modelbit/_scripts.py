"""Serves what a script deploys."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

from penstock import LoadError, Model, StartupError
from penstock.compat.modelbit import workspace
from penstock.compat.modelbit._settings import Settings

__all__ = ["deployed_by"]


def deployed_by(path: Path, settings: Settings) -> list[Model[..., Any]]:
    """Runs a script, with this integration as its `modelbit`, and gives the models of what it deploys.

    Raises:
        LoadError: it failed; `__cause__` is its own exception.
        StartupError: it deploys nothing.
    """
    own = workspace.Workspace()
    own._settings = settings
    before = {name: one for name, one in sys.modules.items() if name.partition(".")[0] == "modelbit"}
    workspace.use(own, starts=False)
    _put({"modelbit": sys.modules["penstock.compat.modelbit"]})
    try:
        runpy.run_path(str(path), run_name="__main__")
    except (Exception, SystemExit) as error:
        raise LoadError(f"cannot run {path}: {type(error).__name__}: {error}") from error
    finally:
        _put(before)
        workspace.use(None)
    models = own.models()
    if len(models) == 1:
        raise StartupError(f"{path} deployed nothing")
    return models


def _put(modules: dict[str, Any]) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == "modelbit"]:
        del sys.modules[name]
    sys.modules.update(modules)
