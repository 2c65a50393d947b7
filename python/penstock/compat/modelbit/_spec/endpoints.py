"""Endpoints: names that route to one of several deployments."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import StartupError
from penstock.compat.modelbit._spec.deployment import MAIN
from penstock.compat.modelbit.errors import RequestError
from penstock.integrations.files import read_yaml

__all__ = ["Backend", "Endpoint", "read_endpoint"]


@dataclass(frozen=True)
class Backend:
    """A target of an endpoint's requests."""

    label: str
    name: str = ""
    branch: str = MAIN
    version: str = "latest"
    weight: float = 1.0
    value: Any = None
    """The response of a backend without a deployment."""


@dataclass(frozen=True)
class Endpoint:
    """A name that routes to deployments."""

    name: str
    backends: tuple[Backend, ...]
    mirrors: tuple[Backend, ...] = ()
    """Backends that get a copy of each request; their responses are discarded."""
    supplied_key: str | None = None
    """Key of a request's body: equal values go to the same backend. None to choose at random."""

    def choose(self, body: Mapping[str, Any] | None) -> Backend:
        """Returns the backend for a request.

        Raises:
            RequestError: the body has no `supplied_key`.
        """
        if len(self.backends) == 1:
            return self.backends[0]
        # Load balancing needs no cryptographic randomness.
        return self._pick(random.random() if self.supplied_key is None else self._fraction(body))  # noqa: S311

    def _pick(self, fraction: float) -> Backend:
        left = fraction * sum(one.weight for one in self.backends)
        for one in self.backends:
            left -= one.weight
            if left < 0:
                return one
        return self.backends[-1]

    def _fraction(self, body: Mapping[str, Any] | None) -> float:
        """Hashes the key's value to a number in [0, 1)."""
        for values in (body, (body or {}).get("data")):
            if isinstance(values, Mapping) and (key := str(self.supplied_key)) in values:
                text = json.dumps(values[key], sort_keys=True)
                digest = hashlib.sha256(f"{self.name}\0{text}".encode()).digest()
                return int.from_bytes(digest[:7], "big") / (1 << 56)
        raise RequestError(f'endpoint {self.name!r} needs the key {self.supplied_key!r} in the body or in "data"')


def read_endpoint(path: Path) -> Endpoint:
    """Reads an endpoint from its file, whose stem is its name.

    Raises:
        StartupError: the file is invalid.
    """
    found = read_yaml(path, extra="modelbit")
    if not isinstance(found, dict) or not isinstance(found.get("backends"), dict) or not found["backends"]:
        raise StartupError(f"{path} has no backends")
    if found.get("schemaVersion", 1) != 1:
        raise StartupError(f"{path}: schemaVersion is {found['schemaVersion']!r}, expected 1")
    key = found.get("suppliedKey")
    backends, mirrors = (
        tuple(_backend(path, str(label), one) for label, one in (found.get(kind) or {}).items())
        for kind in ("backends", "mirrors")
    )
    if sum(one.weight for one in backends) <= 0:
        raise StartupError(f"{path}: no backend has a weight of more than 0")
    return Endpoint(path.stem, backends, mirrors, None if key is None else str(key))


def _backend(path: Path, label: str, found: Any) -> Backend:
    if not isinstance(found, dict):
        raise StartupError(f"{path}: {label} must have a deployment")
    weight = found.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or weight < 0:
        raise StartupError(f"{path}: the weight of {label} is {weight!r}, expected a number of 0 or more")
    if "value" in found:
        return Backend(label, weight=weight, value=found["value"])
    deployment = found.get("deployment")
    if not isinstance(deployment, dict) or "name" not in deployment:
        raise StartupError(f"{path}: {label} has no deployment with a name")
    return Backend(
        label,
        str(deployment["name"]),
        str(deployment.get("branch", MAIN)),
        str(deployment.get("version", "latest")),
        weight,
    )
