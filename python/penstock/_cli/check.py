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


def check(target: str, integration: str | None, *, builds: bool = False) -> tuple[str, list[str]]:
    """The integration of a target, and its problems, a sentence each.

    Args:
        target: The path.
        integration: The integration that serves it; None to detect it.
        builds: Whether the models are built too, as at the start of a server.

    Raises:
        StartupError: there is no such path, or no integration recognises it.
    """
    from penstock._images import checks, describe, needs

    path, object_name = describe.split(target)
    is_native = bool(object_name) or not (integration or _detect.is_for_integrations(target))
    chosen = _detect.NATIVE if is_native else _detect.chosen(path, integration)
    with needs.opened_files() as opened:
        if chosen == _detect.NATIVE:
            problems = _native(target, integration, builds=builds)
        else:
            problems = _of_integration(path, chosen, builds=builds)
    try:
        spec, _ = describe.describe(target, chosen)
        checks.check_spec(spec)
        problems += [
            f"its image needs {source}, which does not exist" for source, _ in spec.files if not source.exists()
        ]
        if not problems:
            problems += needs.missing_files(spec, opened)
            if chosen == _detect.NATIVE:
                problems += needs.missing_packages(spec)
    except StartupError as error:
        problems.append(f"no image can be built of it: {error}")
    # A problem of serving is a problem of the image too, and is reported once.
    return chosen, list(dict.fromkeys(problems))


def _native(target: str, integration: str | None, *, builds: bool) -> list[str]:
    try:
        models = Loader(integration).load(target)
    except StartupError as error:
        return [_reported(error)]
    return _models(models, builds=builds)


def _of_integration(path: Path, integration: str, *, builds: bool) -> list[str]:
    module: Any = _detect.module(integration)
    if hasattr(module, "check"):
        problems = list(module.check(path))
        if problems or not builds:
            return problems
    try:
        return _models(list(module.load(path, {})), builds=builds)
    except StartupError as error:
        return [_reported(error)]


def _models(models: list[Any], *, builds: bool) -> list[str]:
    from penstock._server.server import Server
    from penstock.config import ServerConfig
    from penstock.testing import Client

    if not models:
        return ["it has no model"]
    try:
        # Not started: this checks the declarations, without binding addresses or building instances.
        Server(*models, config=ServerConfig())
        if builds:
            # A server without addresses: it loads and warms up every instance.
            with Client(*models, config=ServerConfig()):
                pass
    except StartupError as error:
        return [_reported(error)]
    return []


def _reported(error: StartupError) -> str:
    """The message of an error, whose traceback in the user's code is printed."""
    if isinstance(error, LoadError) and isinstance(error.__cause__, Exception):
        print(tracebacks.user_traceback(error.__cause__), file=sys.stderr, end="")
    return str(error)
