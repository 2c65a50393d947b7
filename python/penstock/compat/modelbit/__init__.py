"""Modelbit's interface: its deployments' folders, REST routes, client and `deploy`. See docs/modelbit.md."""

from __future__ import annotations

from penstock.compat.modelbit._door import check, describe, detect, load, scaffold
from penstock.compat.modelbit._greeting import greeting
from penstock.compat.modelbit._inference import get_inference
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit.errors import ModelbitError, UserFacingError
from penstock.compat.modelbit.runtime import (
    get_branch,
    get_deployment_info,
    get_model,
    get_models,
    get_secret,
    in_modelbit,
    load_value,
    log_image,
    login,
    parseArg,
    save_value,
    setup,
    switch_branch,
    trace,
)
from penstock.compat.modelbit.workspace import Deployed, Workspace, deploy

__all__ = [
    "Deployed",
    "ModelbitError",
    "Settings",
    "UserFacingError",
    "Workspace",
    "check",
    "deploy",
    "describe",
    "detect",
    "get_branch",
    "get_deployment_info",
    "get_inference",
    "get_model",
    "get_models",
    "get_secret",
    "greeting",
    "in_modelbit",
    "load",
    "load_value",
    "log_image",
    "login",
    "parseArg",
    "save_value",
    "scaffold",
    "setup",
    "switch_branch",
    "trace",
]
