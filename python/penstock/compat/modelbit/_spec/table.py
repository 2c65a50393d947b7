"""Table of deployments: names, branches, versions, aliases and endpoints."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from penstock import StartupError
from penstock.compat.modelbit._spec.deployment import MAIN, Deployment
from penstock.compat.modelbit._spec.endpoints import Endpoint
from penstock.compat.modelbit._spec.metadata import NAME
from penstock.compat.modelbit.errors import RequestError

__all__ = ["DeploymentTable", "check_name"]


def check_name(name: str) -> None:
    """Checks that a deployment's name is usable in a path.

    Raises:
        StartupError: the name has other characters, or is reserved.
    """
    if not NAME.fullmatch(name):
        raise StartupError(f"a deployment's name has letters, digits and underscores, not {name!r}")
    if name in ("endpoint", "links", "models"):
        raise StartupError(f"a deployment cannot be called {name!r}: that is a path of the server")


class DeploymentTable:
    """Deployments, aliases and endpoints. Readers take no lock: writers replace whole dictionaries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, str], dict[int, Deployment]] = {}
        self._aliases: dict[tuple[str, str], dict[str, int]] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._owners: dict[str, str] = {}

    def route_owner(self, name: str) -> str:
        """Returns the model that has the routes of a deployment; empty for the gateway's model."""
        return self._owners.get(name, "")

    def assign_routes(self, deployment: Deployment) -> None:
        """Assigns a name's routes, once: to the model of its first version if that serves in process."""
        self._owners.setdefault(deployment.name, deployment.model if deployment.serves_in_process else "")

    @property
    def names(self) -> list[str]:
        """The deployments' names."""
        return sorted({name for name, _ in self._versions})

    @property
    def endpoints(self) -> list[Endpoint]:
        """The endpoints."""
        return [*self._endpoints.values()]

    def add(self, deployment: Deployment) -> None:
        """Adds a version; the highest of a branch is its latest.

        Raises:
            StartupError: its name is invalid.
        """
        check_name(deployment.name)
        self.assign_routes(deployment)
        with self._lock:
            versions = self._versions.setdefault((deployment.name, deployment.branch), {})
            self._versions[deployment.name, deployment.branch] = {**versions, deployment.version: deployment}

    def add_endpoint(self, endpoint: Endpoint) -> None:
        """Adds an endpoint, or replaces it."""
        self._endpoints = {**self._endpoints, endpoint.name: endpoint}

    def alias(self, name: str, alias: str, version: int, branch: str = MAIN) -> None:
        """Sets the version of an alias.

        Raises:
            StartupError: the version does not exist, or the alias is `latest` or a number.
        """
        if alias == "latest" or alias.isdigit():
            raise StartupError(f"{alias!r} names a version itself and cannot be an alias")
        if version not in self._versions.get((name, branch), {}):
            raise StartupError(f"deployment {name!r} has no version {version} for the alias {alias!r}")
        with self._lock:
            self._aliases[name, branch] = {**self._aliases.get((name, branch), {}), alias: version}

    def all(self) -> Iterable[Deployment]:
        """Returns all versions of all deployments."""
        return [one for versions in [*self._versions.values()] for one in versions.values()]

    def branches(self, name: str) -> list[tuple[str, dict[int, Deployment], dict[str, int]]]:
        """Returns the branches of a deployment, each with its versions and aliases."""
        return [
            (branch, versions, self._aliases.get((one, branch), {}))
            for (one, branch), versions in sorted(self._versions.items())
            if one == name
        ]

    def next_version(self, name: str, branch: str = MAIN) -> int:
        """Returns the number of the next version."""
        return max(self._versions.get((name, branch), {0: None})) + 1

    def find(self, name: str, version: str = "latest", branch: str = MAIN) -> Deployment:
        """Returns a version by its number, alias or `latest`.

        Raises:
            RequestError: it does not exist (404); the message lists the existing ones.
        """
        versions = self._versions.get((name, branch))
        if not versions:
            branches = [one for known, one in self._versions if known == name]
            if not branches:
                raise RequestError(f"there is no deployment {name!r}", 404)
            raise RequestError(f"deployment {name!r} has no branch {branch!r}; it has {', '.join(branches)}", 404)
        if version == "latest":
            return versions[max(versions)]
        aliases = self._aliases.get((name, branch), {})
        number = int(version) if version.isascii() and version.isdigit() else aliases.get(version)
        if number not in versions:
            known = ", ".join(["latest", *map(str, sorted(versions)), *sorted(aliases)])
            raise RequestError(f"deployment {name!r} has no version {version!r}; it has {known}", 404)
        return versions[number]

    def endpoint(self, name: str) -> Endpoint:
        """Returns an endpoint.

        Raises:
            RequestError: it does not exist (404).
        """
        found = self._endpoints.get(name)
        if found is None:
            raise RequestError(f"there is no endpoint {name!r}; there are {', '.join(self._endpoints) or 'none'}", 404)
        return found
