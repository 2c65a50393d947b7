"""Detection and loading of folders and files that integrations serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import StartupError
from penstock.integrations._protocol import Finding

if TYPE_CHECKING:
    from penstock._model.model import Model
    from penstock._model.pipeline import Pipeline

__all__ = ["detect", "load", "settings"]


def detect(path: str | Path) -> list[Finding]:
    """Findings of the integrations for a folder or file, highest confidence first.

    An integration that fails to inspect the path is logged and left out.

    Raises:
        StartupError: there is no such folder or file.
    """
    from penstock.integrations import _detect

    return _detect.findings(Path(path))


def load(
    path: str | Path, options: Mapping[str, Any] | None = None, *, integration: str | None = None
) -> list[Model[..., Any] | Pipeline]:
    """The models that `penstock serve PATH` serves of a folder or file.

    Args:
        path: The folder or file.
        options: Options of the integration.
        integration: Name of the integration; default: the one with the highest confidence.

    Raises:
        StartupError: no integration recognises the path, two have the same confidence, or it cannot be served.
    """
    from penstock.integrations import _detect

    where = Path(path)
    chosen = _detect.chosen(where, integration)
    if chosen == _detect.NATIVE:
        if options:
            raise StartupError(
                f"{path} is served without an integration, which takes no option {next(iter(options))!r}"
            )
        return list(_detect.native(where))
    return list(_detect.module(chosen).load(where, dict(options or {})))


def settings(path: str | Path, *, integration: str | None = None) -> dict[str, str]:
    """Default settings of a folder's or file's integration, as text by name.

    In `penstock serve PATH` every other source takes precedence; see `defaults` of `penstock.config.load_config`.

    Args:
        path: The folder or file.
        integration: Name of the integration; default: the one with the highest confidence.

    Raises:
        StartupError: no integration recognises the path, two have the same confidence, or it cannot read its settings.
        ConfigError: an unknown setting.
    """
    from penstock._config.sources import Defaults, from_defaults
    from penstock.config import ServerConfig
    from penstock.integrations import _detect

    where = Path(path)
    chosen = _detect.chosen(where, integration)
    read: Any = None if chosen == _detect.NATIVE else getattr(_detect.module(chosen), "settings", None)
    values = dict(read(where)) if read else {}
    # Checked here, where errors can name the integration.
    known = {field.name: field for field in fields(ServerConfig)}
    from_defaults(Defaults(f"the integration {chosen}", values), known).checked()
    return values
