"""Checks of an app before it is served, for `penstock check`."""

from __future__ import annotations

from pathlib import Path

from penstock import PenstockError
from penstock.compat.inferless._app.probe import Probe, probe
from penstock.compat.inferless._load import settings_of
from penstock.compat.inferless._spec.app_files import read_app

__all__ = ["check"]


def check(path: Path) -> list[str]:
    """Imports an app in another process, loads it and runs its examples.

    Args:
        path: The app's folder, or its `app.py`.

    Returns:
        The problems, one sentence each.
    """
    try:
        files = read_app(path)
        probed = probe(files.layout.folder, settings_of(files, {}).env, run=True)
    except PenstockError as error:
        return [str(error)]
    return [*files.runtime.warnings, *probed.schema.warnings, *_problems(probed)]


def _problems(probed: Probe) -> list[str]:
    schema, problems = probed.schema, []
    if not probed.parameters and schema.inputs:
        problems.append("infer takes no parameter, so it cannot receive the declared inputs")
    if schema.streaming and schema.batch_size:
        problems.append("BATCH_SIZE and IS_STREAMING_OUTPUT exclude each other; the app streams, one request at a time")
    problems += [
        f"{schema.source}: the required input '{one.name}' has no example, so the app was not run"
        for one in schema.inputs
        if one.required and one.example is None
    ]
    if probed.failure:
        problems.append(f"with its examples the app fails: {probed.failure}")
    return problems
