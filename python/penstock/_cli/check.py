"""Checks of `penstock check`: problems that prevent a path from being served or built as an image."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from penstock._runtime import tracebacks
from penstock.errors import LoadError, StartupError
from penstock.integrations import _detect
from penstock.integrations._targets import Loader

__all__ = ["check"]


def check(target: str, integration: str | None) -> tuple[str, list[str]]:
    """The integration of a target, and its problems, a sentence each.

    Raises:
        StartupError: there is no such path, or no integration recognises it.
    """
    from penstock._images import checks, describe

    path, object_name = describe.split(target)
    is_native = bool(object_name) or not (integration or _detect.is_for_integrations(target))
    chosen = _detect.NATIVE if is_native else _detect.chosen(path, integration)
    problems = _native(target, integration) if chosen == _detect.NATIVE else _of_integration(path, chosen)
    try:
        spec, _ = describe.describe(target, chosen)
        checks.check_spec(spec)
        problems += [
            f"its image needs {source}, which does not exist" for source, _ in spec.files if not source.exists()
        ]
    except StartupError as error:
        problems.append(f"no image can be built of it: {error}")
    # A problem of serving is a problem of the image too, and is reported once.
    return chosen, list(dict.fromkeys(problems))


def _native(target: str, integration: str | None) -> list[str]:
    try:
        models = Loader(integration).load(target)
    except LoadError as error:
        if isinstance(error.__cause__, Exception):
            print(tracebacks.user_traceback(error.__cause__), file=sys.stderr, end="")
        return [str(error)]
    except StartupError as error:
        return [str(error)]
    return _models(models)


def _of_integration(path: Path, integration: str) -> list[str]:
    module: Any = _detect.module(integration)
    if hasattr(module, "check"):
        return list(module.check(path))
    try:
        return _models(list(module.load(path, {})))
    except StartupError as error:
        return [str(error)]


def _models(models: list[Any]) -> list[str]:
    from penstock._server.server import Server
    from penstock.config import ServerConfig

    if not models:
        return ["it has no model"]
    try:
        # Not started: this checks the declarations, without binding addresses or building instances.
        Server(*models, config=ServerConfig())
    except StartupError as error:
        return [str(error)]
    return []
