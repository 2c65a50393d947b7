"""Loading of an app's models, for `penstock serve`."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock import Model, StartupError
from penstock.compat.inferless._app.modules import IsolatedAppModules
from penstock.compat.inferless._app.probe import probe, probe_in_process
from penstock.compat.inferless._app.state import StateFile
from penstock.compat.inferless._bind import app_model, metadata_model
from penstock.compat.inferless._examples import curl_command
from penstock.compat.inferless._settings import Settings
from penstock.compat.inferless._spec.app_files import AppFiles, model_name, read_app
from penstock.compat.inferless._spec.project import Project

__all__ = ["load", "settings_of"]

logger = logging.getLogger("penstock.inferless")

VOLUMES = "/var/nfs-share"
"""Folder of volumes on Inferless."""


def settings_of(files: AppFiles, options: Mapping[str, Any]) -> Settings:
    """Returns the app's options: those given, with defaults from the app's files.

    Raises:
        StartupError: an option is unknown or has an invalid value.
    """
    project = files.project
    given = {name.replace("-", "_"): value for name, value in options.items()}
    defaults: dict[str, Any] = {"timeout": project.timeout, "container_concurrency": project.container_concurrency}
    name = str(given.pop("name", "") or model_name(files))
    settings = Settings.of_options(files.layout.folder, name, given, env=dict(project.env), **defaults)
    return replace(settings, env={**_volume_variables(settings, project), **settings.env})


def load(path: Path, options: Mapping[str, Any]) -> list[Model[..., Any]]:
    """Returns two models: the app and its metadata.

    Args:
        path: The app's folder, or its `app.py`.
        options: Fields of `Settings`.

    Raises:
        StartupError: a file, a declaration or an option is invalid.
        LoadError: the app cannot be imported.
    """
    files = read_app(path)
    settings = settings_of(files, options)
    folder, modules = files.layout.folder, None
    if settings.isolation == "server":
        os.environ.update(settings.env)
        modules = IsolatedAppModules(settings.name, Path(settings.folder))
    probed = probe(folder, settings.env) if modules is None else probe_in_process(folder, modules)
    for warning in (*files.runtime.warnings, *probed.schema.warnings):
        logger.warning("%s: %s", settings.name, warning)
    missing = [one for one in files.project.secrets if one not in os.environ and one not in settings.env]
    if missing:
        logger.warning("%s: secrets missing in the environment: %s", settings.name, ", ".join(missing))
    if probed.schema.streaming and not probed.parameters:
        raise StartupError(f"{path}: infer of a streaming app must take the inputs, and stream_output_handler")
    file = StateFile.create(probed.schema)
    settings = settings.with_state(file.path)
    example = curl_command(settings.name, probed.schema, key=bool(settings.api_key))
    logger.info("%s: example request\n%s", settings.name, example)
    return [
        app_model(settings, file.read(), is_async=probed.is_async, modules=modules),
        metadata_model(settings, file),
    ]


def _volume_variables(settings: Settings, project: Project) -> dict[str, str]:
    """Returns the variables with the path of the app's volume; none if it is where Inferless has it."""
    root = settings.volumes or VOLUMES
    folder = Path(root) / project.volume if project.volume else Path(root)
    if not settings.volumes and not folder.is_dir():
        return {}
    if settings.volumes and not folder.is_dir():
        raise StartupError(f"there is no folder {folder} for the app's volume")
    return {"INFERLESS_VOLUME_PATH": str(folder), "NFS_VOLUME": str(folder)}
