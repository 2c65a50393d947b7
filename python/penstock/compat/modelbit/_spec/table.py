"""Which deployments there are: names, branches, versions, aliases and endpoints."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from penstock import StartupError
from penstock.compat.modelbit._spec.deployment import MAIN, Deployment
from penstock.compat.modelbit._spec.endpoints import Endpoint
from penstock.compat.modelbit._spec.metadata import NAME
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Table", "check_name"]


def check_name(name: str) -> None:
    """Refuses a deployment's name that cannot stand in a path.

    Raises:
        StartupError: it is one.
    """
    if not NAME.fullmatch(name):
        raise StartupError(f"a deployment's name has letters, digits and underscores, not {name!r}")
    if name in ("endpoint", "links", "models"):
        raise StartupError(f"a deployment cannot be called {name!r}: that is a path of the server's")


class Table:
    """Deployments and what stands for them. It may change while requests are answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, str], dict[int, Deployment]] = {}
        self._aliases: dict[tuple[str, str], dict[str, int]] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._owners: dict[str, str] = {}

    def owner(self, name: str) -> str:
        """The model that has a deployment's routes itself, whatever comes later; empty if the integration's has."""
        return self._owners.get(name, "")

    def own(self, deployment: Deployment) -> None:
        """Decides who has a deployment's routes: the model of its first version, if that answers by itself."""
        self._owners.setdefault(deployment.name, deployment.model if deployment.alone else "")

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
            StartupError: it has a name that cannot stand in a path.
        """
        check_name(deployment.name)
        self.own(deployment)
        with self._lock:
            versions = self._versions.setdefault((deployment.name, deployment.branch), {})
            # Replaced whole: readers have no lock.
            self._versions[deployment.name, deployment.branch] = {**versions, deployment.version: deployment}

    def add_endpoint(self, endpoint: Endpoint) -> None:
        """Adds an endpoint, or replaces it."""
        self._endpoints = {**self._endpoints, endpoint.name: endpoint}

    def alias(self, name: str, alias: str, version: int, branch: str = MAIN) -> None:
        """Has an alias stand for a version, whatever it stood for.

        Raises:
            StartupError: there is no such version, or the alias would hide one.
        """
        if alias == "latest" or alias.isdigit():
            raise StartupError(f"{alias!r} stands for a version by itself, and can be no alias")
        if version not in self._versions.get((name, branch), {}):
            raise StartupError(f"deployment {name!r} has no version {version} for the alias {alias!r}")
        with self._lock:
            self._aliases[name, branch] = {**self._aliases.get((name, branch), {}), alias: version}

    def all(self) -> Iterable[Deployment]:
        """All versions of all deployments."""
        return [one for versions in [*self._versions.values()] for one in versions.values()]

    def of(self, name: str) -> list[tuple[str, dict[int, Deployment], dict[str, int]]]:
        """The branches of a deployment, each with its versions and aliases."""
        return [
            (branch, versions, self._aliases.get((one, branch), {}))
            for (one, branch), versions in sorted(self._versions.items())
            if one == name
        ]

    def next_version(self, name: str, branch: str = MAIN) -> int:
        """What a new version would be."""
        return max(self._versions.get((name, branch), {0: None})) + 1

    def find(self, name: str, version: str = "latest", branch: str = MAIN) -> Deployment:
        """The deployment that a request means.

        Raises:
            BadCall: there is none; the message says which there are.
        """
        versions = self._versions.get((name, branch))
        if not versions:
            branches = [one for known, one in self._versions if known == name]
            if not branches:
                raise BadCall(f"there is no deployment {name!r}", 404)
            raise BadCall(f"deployment {name!r} has no branch {branch!r}; it has {', '.join(branches)}", 404)
        if version == "latest":
            return versions[max(versions)]
        aliases = self._aliases.get((name, branch), {})
        number = int(version) if version.isascii() and version.isdigit() else aliases.get(version)
        if number not in versions:
            known = ", ".join(["latest", *map(str, sorted(versions)), *sorted(aliases)])
            raise BadCall(f"deployment {name!r} has no version {version!r}; it has {known}", 404)
        return versions[number]

    def endpoint(self, name: str) -> Endpoint:
        """An endpoint.

        Raises:
            BadCall: there is none.
        """
        found = self._endpoints.get(name)
        if found is None:
            raise BadCall(f"there is no endpoint {name!r}; there are {', '.join(self._endpoints) or 'none'}", 404)
        return found
