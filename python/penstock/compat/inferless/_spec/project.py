"""`inferless.yaml`, of its first and second version, and what of it counts here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import StartupError
from penstock.compat.inferless._spec.yaml_file import read_yaml

__all__ = ["Project", "read_project"]


@dataclass(frozen=True)
class Project:
    """What `inferless.yaml` says."""

    version: str = ""
    name: str = ""
    timeout: float = 0.0
    """`inference_time`, in seconds; 0 if it is not said."""
    container_concurrency: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """The names of secrets, whose variables the platform would set."""
    volume: str = ""
    """The name of the app's volume."""
    runtime_file: str = ""
    """The name of the file with the runtime, if it is another than the usual ones."""


def read_project(path: Path | None) -> Project:
    """Reads a project file; None gives what counts without one.

    Raises:
        StartupError: it cannot be read, or says what cannot be.
    """
    if path is None:
        return Project()
    told = read_yaml(path)
    configuration = _mapping(told.get("configuration"))
    optional = _mapping(told.get("optional"))
    both = {**told, **configuration}
    secrets = told.get("secrets") or []
    return Project(
        version=str(told.get("version") or ""),
        name=str(told.get("name") or ""),
        timeout=_number(path, both, "inference_time"),
        container_concurrency=int(_number(path, both, "container_concurrency")) or 1,
        env={str(name): _text(value) for name, value in _variables(told.get("env")).items()},
        secrets=tuple(str(one) for one in secrets) if isinstance(secrets, list) else (),
        volume=_text(configuration.get("custom_volume_name")),
        runtime_file=_text(optional.get("runtime_file_name")),
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _variables(value: Any) -> dict[str, Any]:
    """Variables, as a mapping or as a list of `NAME=VALUE`."""
    if isinstance(value, list):
        parts = [str(one).partition("=") for one in value]
        return {name: text for name, _, text in parts if name}
    return _mapping(value)


def _text(value: Any) -> str:
    return "" if value is None or str(value) in ("", "null", "~", "None") else str(value)


def _number(path: Path, told: Mapping[str, Any], key: str) -> float:
    text = _text(told.get(key))
    if not text:
        return 0.0
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise StartupError(f"{path.name}: {key} must be a number, not {text!r}")
    return number
