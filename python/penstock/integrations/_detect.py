"""Detection of the integration for a path. Integrations are imported only for detection."""

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
    "Detection",
    "Problem",
    "check_exists",
    "choice",
    "chosen",
    "detect",
    "findings",
    "installed",
    "is_for_integrations",
    "module",
    "native",
]

_log = logging.getLogger("penstock.integrations")

NATIVE = own.NAME
"""Name in findings and `--integration` for Python files with models of Penstock itself."""


def installed() -> list[str]:
    """Names of the installed integrations, the native one first."""
    return [NATIVE, *(name for name, package in INTEGRATIONS.items() if importlib.util.find_spec(package) is not None)]


def module(name: str) -> Integration:
    """The module of an integration.

    Raises:
        StartupError: there is no such integration.
    """
    if name not in INTEGRATIONS or name not in installed():
        raise StartupError(f"there is no integration {name!r}; there are {', '.join(installed())}")
    return cast("Integration", importlib.import_module(INTEGRATIONS[name]))


@dataclass(frozen=True, slots=True)
class Problem:
    """Failure of an integration to inspect a path. It does not prevent detection by the others."""

    integration: str
    error: str
    """Message of its exception."""

    def __str__(self) -> str:
        return f"the integration {self.integration} failed to inspect it: {self.error}"


@dataclass(frozen=True, slots=True)
class Detection:
    """Findings of all integrations for a path, highest confidence first, and problems."""

    findings: list[Finding]
    problems: list[Problem]

    def log_problems(self, path: Path) -> None:
        """Logs the problems of integrations that were not chosen."""
        for problem in self.problems:
            _log.warning("penstock: %s: %s", path, problem)


def detect(path: Path) -> Detection:
    """The findings of all integrations for a path.

    Raises:
        StartupError: there is no such path.
    """
    check_exists(path)
    detection = Detection([], [])
    for name in installed():
        try:
            finding = own.detect(path) if name == NATIVE else module(name).detect(path)
        except Exception as error:
            detection.problems.append(Problem(name, _message(error)))
            continue
        if finding is not None:
            detection.findings.append(finding)
    # The sort is stable: equal confidence keeps the order of the table.
    detection.findings.sort(key=lambda finding: -finding.confidence)
    return detection


def findings(path: Path) -> list[Finding]:
    """The findings for a path, highest confidence first. Problems are logged.

    Raises:
        StartupError: there is no such path.
    """
    detection = detect(path)
    detection.log_problems(path)
    return detection.findings


def chosen(path: Path, integration: str | None = None) -> str:
    """The integration for a path: `integration` if it is given, else the one with the highest confidence.

    Raises:
        StartupError: no integration recognises the path, two have the same confidence, or there is no such path or
            integration.
    """
    if integration is not None:
        check_exists(path)
        if integration != NATIVE:
            module(integration)
        return integration
    detection = detect(path)
    integration = choice(path, detection)
    detection.log_problems(path)
    return integration


def choice(path: Path, detection: Detection) -> str:
    """The integration with the highest confidence.

    Raises:
        StartupError: there is none, or two have the same confidence.
    """
    if not detection.findings:
        raise StartupError("; ".join([_unknown_message(path), *map(str, detection.problems)]))
    best = [finding for finding in detection.findings if finding.confidence == detection.findings[0].confidence]
    if len(best) > 1:
        reasons = ", or ".join(f"{finding.integration} ({finding.why})" for finding in best)
        raise StartupError(
            f"{path} could be for {reasons}; choose with --integration {best[0].integration} for example"
        )
    return best[0].integration


def is_for_integrations(target: str) -> bool:
    """True if integrations load a target of the command line, rather than an import.

    They load folders, and files that are not Python. They load a Python file that an integration recognises, unless it
    imports Penstock. A package that is named as a module is imported, unless an integration recognises it.
    """
    path = Path(target)
    if path.is_dir():
        is_module = os.sep not in target and (path / "__init__.py").is_file()
        return not is_module or _is_known(path)
    if path.is_file() and path.suffix != ".py":
        return True
    return path.is_file() and not own.imports_penstock(path) and _is_known(path)


def native(path: Path) -> Sequence[Any]:
    """The models of a Python file, or of a folder's `app.py`."""
    from penstock._loading import targets

    return targets.load(str(own.file_of(path)))


def check_exists(path: Path) -> None:
    """Checks that a path exists.

    Raises:
        StartupError: it does not.
    """
    if not path.exists():
        raise StartupError(f"there is no file or folder {path}")


def _is_known(path: Path) -> bool:
    detection = detect(path)
    if not detection.findings:
        # It will be imported, so this is the last detection.
        detection.log_problems(path)
    return bool(detection.findings)


def _message(error: Exception) -> str:
    # The text of a StartupError suffices; other exceptions need their type.
    return str(error) if isinstance(error, StartupError) else f"{type(error).__name__}: {error}"


def _unknown_message(path: Path) -> str:
    if own.is_repository(path):
        return f"{path} is a model repository: give it as --repository {path}"
    integrations = ", ".join(name for name in installed() if name != NATIVE) or "none is installed"
    if path.is_dir():
        return (
            f"{path} cannot be served: it has no app.py with models of Penstock, and no integration "
            f"recognises it (integrations: {integrations}); name the file in it, or an integration with --integration"
        )
    return (
        f"no integration recognises {path} (integrations: {integrations}); name one with --integration, or give a file "
        "whose name ends in .py"
    )
