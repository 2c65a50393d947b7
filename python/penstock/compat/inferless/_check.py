"""`check`: what is wrong with an app, before it is served."""

from __future__ import annotations

from pathlib import Path

from penstock import PenstockError
from penstock.compat.inferless._app.probe import Probe, probe
from penstock.compat.inferless._load import read, settings_of

__all__ = ["check"]


def check(path: Path) -> list[str]:
    """Imports an app in a process of its own, loads it, runs its examples, and says what is wrong.

    Args:
        path: The app's folder, or its `app.py`.

    Returns:
        One sentence each; none if all is well.
    """
    try:
        found = read(path)
        env = settings_of(found, {}).env
        seen = probe(found.layout.folder, env, run=True)
    except PenstockError as error:
        return [str(error)]
    return [*found.runtime.warnings, *seen.schema.warnings, *_problems(seen)]


def _problems(seen: Probe) -> list[str]:
    schema, found = seen.schema, []
    if not seen.takes and schema.inputs:
        found.append("infer takes no parameter, and so never sees the inputs that are declared")
    if schema.streaming and schema.batch_size:
        found.append("BATCH_SIZE and IS_STREAMING_OUTPUT do not go together; the app streams, one request at a time")
    found += [
        f"{schema.source}: the required input '{one.name}' has no example, so the app was not tried"
        for one in schema.inputs
        if one.required and one.example is None
    ]
    if seen.examples:
        found.append(f"with its examples the app fails: {seen.examples}")
    return found
