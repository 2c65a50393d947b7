"""Asks the integrations about a path. They are imported for that, and not before."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock.errors import StartupError
from penstock.integrations import _native as own
from penstock.integrations._protocol import Finding, Integration
from penstock.integrations._table import INTEGRATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "NATIVE",
    "Asked",
    "Problem",
    "ask",
    "check_exists",
    "choice",
    "chosen",
    "findings",
    "installed",
    "is_for_integrations",
    "module",
    "native",
]

_log = logging.getLogger("penstock.integrations")

NATIVE = own.NAME
"""What stands for no integration in findings and in `--integration`: a file with models of Penstock's own."""


def installed() -> list[str]:
    """The names of the integrations that this Penstock has, the native one first."""
    return [NATIVE, *(name for name, package in INTEGRATIONS.items() if importlib.util.find_spec(package) is not None)]


def module(name: str) -> Integration:
    """An integration's module.

    Raises:
        StartupError: there is no such integration.
    """
    if name not in INTEGRATIONS or name not in installed():
        raise StartupError(f"there is no integration {name!r}; there are {', '.join(installed())}")
    return cast("Integration", importlib.import_module(INTEGRATIONS[name]))


@dataclass(frozen=True, slots=True)
class Problem:
    """An integration could not look at a path. That is the integration's affair: the others are asked all the same."""

    integration: str
    error: str
    """What it raised."""

    def __str__(self) -> str:
        return f"the integration {self.integration} could not look at it: {self.error}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What all integrations, and Penstock itself, say of a path: the surest first, and who could say nothing."""

    findings: list[Finding]
    problems: list[Problem]

    def tell_problems(self, path: Path) -> None:
        """Logs them, for whoever is served by another integration."""
        for one in self.problems:
            _log.warning("penstock: %s: %s", path, one)


def ask(path: Path) -> Asked:
    """Asks all integrations about a path.

    Raises:
        StartupError: there is no such path.
    """
    check_exists(path)
    asked = Asked([], [])
    for name in installed():
        try:
            found = own.detect(path) if name == NATIVE else module(name).detect(path)
        except Exception as error:
            asked.problems.append(Problem(name, _said(error)))
            continue
        if found is not None:
            asked.findings.append(found)
    # Of equals, the table's order: the same answer each time.
    asked.findings.sort(key=lambda one: -one.confidence)
    return asked


def findings(path: Path) -> list[Finding]:
    """What is said of a path, the surest first. Integrations that could not look at it are logged.

    Raises:
        StartupError: there is no such path.
    """
    asked = ask(path)
    asked.tell_problems(path)
    return asked.findings


def chosen(path: Path, integration: str | None = None) -> str:
    """The integration for a path: the one that was named, or else the one that is surest.

    Raises:
        StartupError: there is none, two are equally sure, or there is no such path or integration.
    """
    if integration is not None:
        check_exists(path)
        if integration != NATIVE:
            module(integration)
        return integration
    asked = ask(path)
    found = choice(path, asked)
    asked.tell_problems(path)
    return found


def choice(path: Path, asked: Asked) -> str:
    """The integration that is surest of those that were asked.

    Raises:
        StartupError: there is none, or two are equally sure.
    """
    if not asked.findings:
        raise StartupError("; ".join([_nobody(path), *map(str, asked.problems)]))
    best = [one for one in asked.findings if one.confidence == asked.findings[0].confidence]
    if len(best) > 1:
        reasons = ", or ".join(f"{one.integration} ({one.why})" for one in best)
        raise StartupError(
            f"{path} could be for {reasons}; choose with --integration {best[0].integration} for example"
        )
    return best[0].integration


def is_for_integrations(target: str) -> bool:
    """Whether a target of the command line is to be shown to the integrations, rather than imported.

    Folders and files that are not Python are. A Python file is if an integration knows it and it does not import
    Penstock: an import could find no model in it. A package that is named as a module is imported, unless an
    integration knows it.
    """
    path = Path(target)
    if path.is_dir():
        is_module = os.sep not in target and (path / "__init__.py").is_file()
        return not is_module or _is_known(path)
    if path.is_file() and path.suffix != ".py":
        return True
    return path.is_file() and not own.imports_penstock(path) and _is_known(path)


def native(path: Path) -> Sequence[Any]:
    """The models of a file, or of a folder's file, with models of Penstock's own."""
    from penstock._loading import targets

    return targets.load(str(own.file_of(path)))


def check_exists(path: Path) -> None:
    """Refuses a path that is not there.

    Raises:
        StartupError: it is not.
    """
    if not path.exists():
        raise StartupError(f"there is no file or folder {path}")


def _is_known(path: Path) -> bool:
    asked = ask(path)
    if not asked.findings:
        # It will be imported, and nobody asks again.
        asked.tell_problems(path)
    return bool(asked.findings)


def _said(error: Exception) -> str:
    # A refusal is written to be read; of anything else, its kind says more than its text.
    return str(error) if isinstance(error, StartupError) else f"{type(error).__name__}: {error}"


def _nobody(path: Path) -> str:
    if own.is_repository(path):
        return f"{path} is a model repository: give it as --repository {path}"
    integrations = ", ".join(name for name in installed() if name != NATIVE) or "none is installed"
    if path.is_dir():
        return (
            f"{path} is nothing that can be served: it has no app.py with models of Penstock's, and no integration "
            f"knows it (integrations: {integrations}); name the file in it, or an integration with --integration"
        )
    return (
        f"no integration knows {path} (integrations: {integrations}); name one with --integration, or give a file "
        "whose name ends in .py"
    )
