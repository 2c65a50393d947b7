"""What can be chosen of how a function is served."""

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
    """How a function is served. See docs/openinference.md."""

    validate: str = "on"
    """Whether requests and answers must be as the function declares."""
    data: str = "flat"
    """Whether handlers get elements flat, nested by the shape, or, of JSON, as they were sent."""
    bytes_mode: str = "plain"
    """`digitalhub`: BYTES over gRPC are base64, as upstream."""
    nan: str = "keep"
    """`error`: answers with NaN or infinities are refused."""
    environment: str = "auto"
    """`auto`: a function that asks for packages runs in an environment of its own. `none`: in the server's."""
    isolation: str = "process"
    """Whether the function is computed in processes of its own, or on threads of the server's."""
    python: str = "auto"
    """`exact`: a function runs with its own version of Python, or not at all. `auto`: with the server's, where the
    machine does not have that version."""
    version: str = "1"
    """The model's version."""
    replicas: int = 1
    """How many processes; or threads, with `isolation: server`."""
    project: str | None = None
    init_parameters: Mapping[str, Any] = field(default_factory=dict)
    envs: Mapping[str, str] = field(default_factory=dict)
    """What is different in the environment of the function's processes."""
    run: str | None = None
    """The run's id."""

    @classmethod
    def of(cls, *given: Mapping[str, Any]) -> Options:
        """Reads options; of several, later ones count.

        Raises:
            StartupError: one is not known, or not one of its values.
        """
        merged = {name: value for one in given for name, value in one.items() if value is not None}
        known = {one.name for one in fields(cls)}
        for name in merged:
            if name not in known:
                raise StartupError(f"there is no option {name!r}; there are {', '.join(sorted(known))}")
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
    # YAML reads on and off as booleans.
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
            raise StartupError(f"option {name} is no JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise StartupError(f"option {name} is {value!r}, expected an object")
    return value
