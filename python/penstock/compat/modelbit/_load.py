"""Loading of deployments' models, for `penstock serve`."""

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
from penstock.compat.modelbit._bind import deployment_model, gateway_model
from penstock.compat.modelbit._examples import remember_table
from penstock.compat.modelbit._gateway.gateway import Gateway
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.folders import fill_table
from penstock.compat.modelbit._spec.table import DeploymentTable

__all__ = ["load", "load_script"]


def load(path: Path, options: Mapping[str, Any]) -> list[Model[..., Any]]:
    """Returns the gateway's model and one model per version of each deployment.

    Args:
        path: A deployment's folder, a repository, or a script that deploys; the script is run.
        options: Fields of `Settings`.

    Raises:
        StartupError: a file or an option is invalid.
    """
    settings = Settings.of(options)
    if path.is_file():
        return load_script(path, settings)
    table = DeploymentTable()
    fill_table(table, path, settings, secrets.token_hex(16))
    name = f"modelbit.{_folder_name(path)}"
    gateway = Gateway(name, table, settings)
    models = [deployment_model(one, settings, gateway) for one in table.all()]
    return remember_table([gateway_model(name, gateway), *models], table)


def load_script(path: Path, settings: Settings) -> list[Model[..., Any]]:
    """Runs a script with this integration as its `modelbit`. Returns the models of its deployments.

    Raises:
        LoadError: the script failed; `__cause__` is its exception.
        StartupError: the script deploys nothing.
    """
    target = workspace.Workspace()
    target._settings = settings
    before = {name: one for name, one in sys.modules.copy().items() if name.partition(".")[0] == "modelbit"}
    workspace.use(target, starts_server=False)
    _replace_modules({"modelbit": sys.modules["penstock.compat.modelbit"]})
    try:
        runpy.run_path(str(path), run_name="__main__")
    except (Exception, SystemExit) as error:
        raise LoadError(f"cannot run {path}: {type(error).__name__}: {error}") from error
    finally:
        _replace_modules(before)
        workspace.use(None)
    models = target.models()
    if len(models) == 1:
        raise StartupError(f"{path} deployed nothing")
    return models


def _replace_modules(modules: dict[str, Any]) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "modelbit":
            del sys.modules[name]
    sys.modules.update(modules)


def _folder_name(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", path.resolve().name) or "deployments"
