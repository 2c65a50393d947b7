"""`Options`: the settings of a served function."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from penstock.errors import StartupError

__all__ = ["Options"]

_CHOICES = {
    "validate": ("on", "off"),
    "data": ("flat", "nested", "sent"),
    "bytes_mode": ("plain", "digitalhub"),
    "nan": ("keep", "error"),
    "environment": ("auto", "none"),
    "isolation": ("process", "server"),
    "python": ("auto", "exact"),
}


@dataclass(frozen=True)
class Options:
    """Settings of a served function. See docs/openinference.md."""

    validate: str = "on"
    """Check requests and responses against the declared tensors: `on` or `off`."""
    data: str = "flat"
    """Form of `data` for handlers: `flat`, `nested` by the shape, or `sent`, which keeps the form of a JSON request."""
    bytes_mode: str = "plain"
    """BYTES over gRPC: `plain`, or `digitalhub` for base64, same as upstream."""
    nan: str = "keep"
    """Responses with NaN or infinities: `keep`, or `error` to reject them."""
    environment: str = "auto"
    """`auto` uses a virtual environment for a function with requirements, `none` the server's environment."""
    isolation: str = "process"
    """Place of the function: `process` for separate processes, `server` for threads of the server's process."""
    python: str = "auto"
    """`exact` requires the function's Python version. `auto` falls back to the server's."""
    version: str = "1"
    """Version of the model."""
    replicas: int = 1
    """Number of processes, or of threads with `isolation: server`."""
    project: str | None = None
    init_parameters: Mapping[str, Any] = field(default_factory=dict)
    envs: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the function's processes."""
    run: str | None = None
    """Id of the run."""

    @classmethod
    def of(cls, *given: Mapping[str, Any]) -> Options:
        """Merges and validates options. Later mappings take precedence.

        Raises:
            StartupError: an option is unknown or has an invalid value.
        """
        merged = {name: value for one in given for name, value in one.items() if value is not None}
        known = {one.name for one in fields(cls)}
        for name in merged:
            if name not in known:
                raise StartupError(f"unknown option {name!r}, expected one of {', '.join(sorted(known))}")
        for name, choices in _CHOICES.items():
            if name in merged:
                merged[name] = _chosen(name, merged[name], choices)
        if "replicas" in merged:
            merged["replicas"] = _count(merged["replicas"])
        for name in ("init_parameters", "envs"):
            if name in merged:
                merged[name] = _object(name, merged[name])
        if "envs" in merged:
            merged["envs"] = {str(name): str(value) for name, value in merged["envs"].items()}
        if "version" in merged:
            merged["version"] = str(merged["version"])
        return cls(**merged)


def _chosen(name: str, value: Any, choices: tuple[str, ...]) -> str:
    # YAML parses on and off as booleans.
    text = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
    if text not in choices:
        raise StartupError(f"option {name} is {value!r}, expected one of {', '.join(choices)}")
    return str(text)


def _count(value: Any) -> int:
    try:
        count = int(str(value))
    except ValueError:
        count = 0
    if count < 1:
        raise StartupError(f"option replicas is {value!r}, expected a number of 1 or more")
    return count


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise StartupError(f"option {name} is not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise StartupError(f"option {name} is {value!r}, expected an object")
    return value
