"""`load`: the models that serve an app."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock import Model, StartupError
from penstock.compat.inferless._app.modules import OfServer
from penstock.compat.inferless._app.probe import look, probe
from penstock.compat.inferless._app.state import StateFile
from penstock.compat.inferless._bind import model_of
from penstock.compat.inferless._detect import Layout
from penstock.compat.inferless._examples import curl_of
from penstock.compat.inferless._metadata import metadata_model
from penstock.compat.inferless._settings import Settings
from penstock.compat.inferless._spec.project import Project, read_project
from penstock.compat.inferless._spec.runtime import Runtime, read_runtime

__all__ = ["Read", "greeting", "load", "name_of", "read"]

logger = logging.getLogger("penstock.inferless")

VOLUMES = "/var/nfs-share"
"""Where volumes lie on the platform."""


@dataclass(frozen=True)
class Read:
    """What an app's folder says without being run."""

    layout: Layout
    project: Project
    runtime: Runtime


def read(path: Path) -> Read:
    """Reads the files of a folder, and runs none.

    Raises:
        StartupError: there is no app in it, or a file says what cannot be.
    """
    layout = Layout.of(path)
    layout.required_app()
    project = read_project(layout.project)
    named = layout.folder / project.runtime_file if project.runtime_file else None
    runtime = read_runtime(named if named is not None and named.is_file() else layout.runtime)
    return Read(layout, project, runtime)


def name_of(found: Read) -> str:
    """The model's name: that of the project, else that of the folder."""
    text = found.project.name or found.layout.folder.resolve().name
    return re.sub(r"[^\w.-]+", "-", text).strip("-") or "inferless-model"


def settings_of(found: Read, options: Mapping[str, Any]) -> Settings:
    """How an app is served, of what its files and options say.

    Raises:
        StartupError: an option is unknown or wrong.
    """
    project = found.project
    given = {name.replace("-", "_"): value for name, value in options.items()}
    known: dict[str, Any] = {"timeout": project.timeout, "container_concurrency": project.container_concurrency}
    settings = Settings.of_options(
        found.layout.folder, str(given.pop("name", "") or name_of(found)), given, env=dict(project.env), **known
    )
    return replace(settings, env={**_volumes(settings, project), **settings.env})


def load(path: Path, options: Mapping[str, Any]) -> list[Model[..., Any]]:
    """The models that serve an app: the app itself, and its metadata.

    Args:
        path: The app's folder, or its `app.py`.
        options: The fields of `Settings`.

    Raises:
        StartupError: it cannot be served; the message says why.
    """
    found = read(path)
    settings = settings_of(found, options)
    modules = None
    if settings.isolation == "server":
        os.environ.update(settings.env)
        modules = OfServer(settings.name, Path(settings.folder))
    seen = probe(found.layout.folder, settings.env) if modules is None else look(found.layout.folder, modules)
    for warning in (*found.runtime.warnings, *seen.schema.warnings):
        logger.warning("%s: %s", settings.name, warning)
    missing = [one for one in found.project.secrets if one not in os.environ and one not in settings.env]
    if missing:
        logger.warning("%s: secrets that are not in the environment: %s", settings.name, ", ".join(missing))
    if seen.schema.streaming and not seen.takes:
        raise StartupError(f"{path}: infer of a streaming app must take the inputs, and stream_output_handler")
    file = StateFile.made(seen.schema)
    settings = settings.with_state(file.path)
    logger.info("%s: try\n%s", settings.name, curl_of(settings.name, seen.schema, key=bool(settings.api_key)))
    return [
        model_of(settings, file.read(), is_async=seen.is_async, modules=modules),
        metadata_model(settings, file),
    ]


def greeting(models: Sequence[Any], url: str) -> list[str]:
    """Commands that call apps with their own examples.

    Args:
        models: What `load` has made.
        url: Where HTTP is.
    """
    apps = [tell for one in models if (tell := getattr(one.__wrapped__, "curl", None)) is not None]
    return [tell(url).replace(" \\\n  ", " ") for tell in apps]


def _volumes(settings: Settings, project: Project) -> dict[str, str]:
    """Variables that say where the app's volume is, if it is elsewhere than on the platform."""
    root = settings.volumes or VOLUMES
    folder = Path(root) / project.volume if project.volume else Path(root)
    if not settings.volumes and not folder.is_dir():
        return {}
    if settings.volumes and not folder.is_dir():
        raise StartupError(f"there is no folder {folder} for the app's volume")
    return {"INFERLESS_VOLUME_PATH": str(folder), "NFS_VOLUME": str(folder)}
