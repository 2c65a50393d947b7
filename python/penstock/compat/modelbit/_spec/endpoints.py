"""Endpoints: names that stand for other deployments, one or several of them."""

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
from penstock.compat.modelbit._spec.metadata import read_yaml
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Backend", "Endpoint", "read_endpoint"]


@dataclass(frozen=True)
class Backend:
    """Where requests of an endpoint may go."""

    label: str
    name: str = ""
    branch: str = MAIN
    version: str = "latest"
    weight: float = 1.0
    value: Any = None
    """What is answered without a deployment, where there is none."""


@dataclass(frozen=True)
class Endpoint:
    """A name that stands for deployments."""

    name: str
    backends: tuple[Backend, ...]
    mirrors: tuple[Backend, ...] = ()
    """These get copies, and nobody waits for them."""
    supplied_key: str | None = None
    """What of a request says where it goes: equal values go to the same backend. None for chance."""

    def choose(self, body: Mapping[str, Any] | None) -> Backend:
        """The backend for a request.

        Raises:
            BadCall: it does not say what it is to be chosen by.
        """
        if len(self.backends) == 1:
            return self.backends[0]
        # By chance, which nobody has to be unable to guess.
        return self._at(random.random() if self.supplied_key is None else self._share(body))  # noqa: S311

    def _at(self, share: float) -> Backend:
        left = share * sum(one.weight for one in self.backends)
        for one in self.backends:
            left -= one.weight
            if left < 0:
                return one
        return self.backends[-1]

    def _share(self, body: Mapping[str, Any] | None) -> float:
        """A place from 0 to 1, the same for the same value."""
        for place in (body, (body or {}).get("data")):
            if isinstance(place, Mapping) and (key := str(self.supplied_key)) in place:
                text = json.dumps(place[key], sort_keys=True)
                digest = hashlib.sha256(f"{self.name}\0{text}".encode()).digest()
                return int.from_bytes(digest[:7], "big") / (1 << 56)
        raise BadCall(f'endpoint {self.name!r} needs the key {self.supplied_key!r} beside "data", to choose by')


def read_endpoint(path: Path) -> Endpoint:
    """An endpoint of its file, after which it is named.

    Raises:
        StartupError: the file is not one of an endpoint.
    """
    found = read_yaml(path)
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
