"""The project file `inferless.yaml`, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import StartupError
from penstock.compat.inferless._spec.yaml_file import read_mapping

__all__ = ["Project", "read_project"]


@dataclass(frozen=True)
class Project:
    """The fields of `inferless.yaml` that Penstock uses."""

    version: str = ""
    name: str = ""
    timeout: float = 0.0
    """`inference_time`, in seconds; 0 if absent."""
    container_concurrency: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of secrets, which the platform sets as environment variables."""
    volume: str = ""
    """Name of the app's volume."""
    runtime_file: str = ""
    """Name of the runtime file; empty for the default names."""


def read_project(path: Path | None) -> Project:
    """Reads a project file; returns defaults for None.

    Raises:
        StartupError: the file is invalid.
    """
    if path is None:
        return Project()
    values = read_mapping(path)
    configuration = _mapping(values.get("configuration"))
    optional = _mapping(values.get("optional"))
    both = {**values, **configuration}
    secrets = values.get("secrets") or []
    return Project(
        version=str(values.get("version") or ""),
        name=str(values.get("name") or ""),
        timeout=_number(path, both, "inference_time"),
        container_concurrency=int(_number(path, both, "container_concurrency")) or 1,
        env={str(name): _text(value) for name, value in _variables(values.get("env")).items()},
        secrets=tuple(str(one) for one in secrets) if isinstance(secrets, list) else (),
        volume=_text(configuration.get("custom_volume_name")),
        runtime_file=_text(optional.get("runtime_file_name")),
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _variables(value: Any) -> dict[str, Any]:
    """Returns variables from a mapping or a list of `NAME=VALUE`."""
    if isinstance(value, list):
        parts = [str(one).partition("=") for one in value]
        return {name: text for name, _, text in parts if name}
    return _mapping(value)


def _text(value: Any) -> str:
    return "" if value is None or str(value) in ("", "null", "~", "None") else str(value)


def _number(path: Path, values: Mapping[str, Any], key: str) -> float:
    text = _text(values.get(key))
    if not text:
        return 0.0
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise StartupError(f"{path.name}: {key} must be a number, not {text!r}")
    return number
