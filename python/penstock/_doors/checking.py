"""What would keep a path from being served, or from becoming an image."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from penstock import _load
from penstock._doors import asking
from penstock._doors.serving import Loader
from penstock.errors import LoadError, StartupError

__all__ = ["check"]


def check(target: str, door: str | None) -> tuple[str, list[str]]:
    """Which door a target is for, and what is wrong with it, a sentence each.

    Raises:
        StartupError: there is no such path, or no door knows it.
    """
    from penstock._images import checks, describing

    path, named = describing.split(target)
    is_native = bool(named) or not (door or asking.is_for_doors(target))
    chosen = asking.NATIVE if is_native else asking.chosen(path, door)
    problems = _native(target, door) if chosen == asking.NATIVE else _of_door(path, chosen)
    try:
        spec, _ = describing.describe(target, chosen)
        checks.check_spec(spec)
        problems += [f"its image needs {here}, which is not there" for here, _ in spec.files if not here.exists()]
    except StartupError as error:
        problems.append(f"no image can be made of it: {error}")
    # What keeps it from being served keeps an image from being made too; once is enough.
    return chosen, list(dict.fromkeys(problems))


def _native(target: str, door: str | None) -> list[str]:
    try:
        models = Loader(door).load(target)
    except LoadError as error:
        if isinstance(error.__cause__, Exception):
            print(_load.user_traceback(error.__cause__), file=sys.stderr, end="")
        return [str(error)]
    except StartupError as error:
        return [str(error)]
    return _models(models)


def _of_door(path: Path, door: str) -> list[str]:
    module: Any = asking.module(door)
    if hasattr(module, "check"):
        return list(module.check(path))
    try:
        return _models(list(module.load(path, {})))
    except StartupError as error:
        return [str(error)]


def _models(models: list[Any]) -> list[str]:
    from penstock.config import ServerConfig
    from penstock.server import Server

    if not models:
        return ["it has no model"]
    try:
        # It binds nothing and builds no instance, but compares all that is declared.
        Server(*models, config=ServerConfig())
    except StartupError as error:
        return [str(error)]
    return []
