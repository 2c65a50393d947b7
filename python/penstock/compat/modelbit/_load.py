"""Loads the models of deployments, for `penstock serve`."""

from __future__ import annotations

import re
import runpy
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import LoadError, Model, StartupError
from penstock.compat.modelbit import workspace
from penstock.compat.modelbit._bind import gate_model, model_of
from penstock.compat.modelbit._examples import to_greet
from penstock.compat.modelbit._gateway.gateway import Gate
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.folders import fill
from penstock.compat.modelbit._spec.table import Table

__all__ = ["deployed_by", "load"]


def load(path: Path, options: Mapping[str, Any]) -> list[Model[..., Any]]:
    """The models of a path: one with the routes, and one for each version of each deployment.

    Args:
        path: A deployment's folder, a repository, or a script that deploys: that is run.
        options: See `Settings`.

    Raises:
        StartupError: it cannot be served.
    """
    settings = Settings.of(options)
    if path.is_file():
        return deployed_by(path, settings)
    table = Table()
    fill(table, path, settings, secrets.token_hex(16))
    gate = Gate(f"modelbit.{_plain(path)}", table, settings)
    front = gate_model(f"modelbit.{_plain(path)}", gate)
    return to_greet([front, *(model_of(one, settings, gate) for one in table.all())], table)


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


def _plain(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", path.resolve().name) or "deployments"
