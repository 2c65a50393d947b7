"""What a request means: which deployment, and whether its caller may ask it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock import Request
from penstock.compat.modelbit._gateway.api_keys import Keys
from penstock.compat.modelbit._spec.deployment import MAIN, Deployment
from penstock.compat.modelbit._spec.table import Table
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Meant", "is_single", "own_routes_of", "routes_of"]

_POST = "POST /v1/"


def routes_of(name: str) -> list[str]:
    """The routes of a deployment, whatever its versions."""
    return [f"{_POST}{name}/{{version}}", f"{_POST}{name}/{{branch}}/{{version}}", f"GET /v1/{name}"]


def own_routes_of(deployment: Deployment) -> list[str]:
    """The whole paths of one version, which go before those: for a process that answers them itself."""
    branch = deployment.branch.replace("/", "~")
    homes = [*([deployment.name] if deployment.branch == MAIN else []), f"{deployment.name}/{branch}"]
    return [f"{_POST}{home}/{version}" for home in homes for version in ("latest", deployment.version)]


def is_single(headers: Mapping[str, str]) -> bool:
    """Whether a request's data is one argument, whatever it looks like."""
    return headers.get("x-single", "").lower() == "true"


@dataclass(slots=True)
class Meant:
    """What a request to a deployment's routes means."""

    deployment: Deployment
    body: bytes
    headers: dict[str, str]
    alias: str | None
    """What it named instead of a version."""
    single: bool
    """Whether its data is one argument, whatever it looks like."""

    @classmethod
    def of(cls, request: Request, table: Table, keys: Keys) -> Meant:
        """What a request that has a body means.

        Raises:
            BadCall: there is no such deployment, or its caller may not ask it.
        """
        meant = cls.by(request, table, keys)
        if meant is None:
            raise BadCall("it is asked by POST", 405)
        return meant

    @classmethod
    def by(cls, request: Request, table: Table, keys: Keys) -> Meant | None:
        """What a request means; None for one that only reads. Raises what `of` raises."""
        route = request.route
        if route is None:
            raise BadCall("a deployment is asked by its own path, /v1/DEPLOYMENT/VERSION", 403)
        if not route.startswith(_POST):
            return None
        headers, params = request.headers, request.path_params
        keys.check(headers)
        name, *rest = route[len(_POST) :].split("/")
        *branch, version = (params[part[1:-1]] if part.startswith("{") else part for part in rest)
        deployment = table.find(name, version, branch[0].replace("~", "/") if branch else MAIN)
        alias = None if version.isdigit() else version
        return cls(deployment, request.body or b"", headers, alias, is_single(headers))
