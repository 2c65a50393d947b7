"""Modelbit integration: deployment folders, REST routes, client and `deploy`. See docs/modelbit.md."""

from __future__ import annotations

from penstock.compat.modelbit._check import check
from penstock.compat.modelbit._client.inference import get_inference
from penstock.compat.modelbit._detect import detect
from penstock.compat.modelbit._examples import greeting, scaffold
from penstock.compat.modelbit._image import describe
from penstock.compat.modelbit._load import load
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
