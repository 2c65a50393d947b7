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
    """What `penstock serve PATH` would serve of a folder or file.

    Args:
        path: The folder or file.
        options: What the integration takes beside it.
        integration: The integration's name; else the one that is surest to know the path.

    Raises:
        StartupError: no integration knows it, two are equally sure, or it cannot be served.
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
    """Settings of the server that the integration of a folder or file has as its defaults, as text by name.

    `penstock serve PATH` puts them behind every other source; see `defaults` of `penstock.config.load_config`.

    Args:
        path: The folder or file.
        integration: The integration's name; else the one that is surest to know the path.

    Raises:
        StartupError: no integration knows it, two are equally sure, or what it says of them cannot be read.
        ConfigError: the integration names a setting that there is not.
    """
    from penstock._config.settings import read_texts
    from penstock.config import ServerConfig
    from penstock.integrations import _detect

    where = Path(path)
    chosen = _detect.chosen(where, integration)
    wanted: Any = None if chosen == _detect.NATIVE else getattr(_detect.module(chosen), "settings", None)
    found = dict(wanted(where)) if wanted else {}
    # Here, where it is known whose they are.
    read_texts(found, f"the integration {chosen}", {one.name: one for one in fields(ServerConfig)})
    return found
