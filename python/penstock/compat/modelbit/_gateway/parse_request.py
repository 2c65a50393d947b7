"""Routes of deployments, and the deployment that a request addresses."""

from __future__ import annotations

from dataclasses import dataclass

from penstock import Request
from penstock.compat.modelbit._api_keys import ApiKeys
from penstock.compat.modelbit._request import is_single
from penstock.compat.modelbit._spec.deployment import MAIN, Deployment
from penstock.compat.modelbit._spec.table import DeploymentTable
from penstock.compat.modelbit.errors import RequestError

__all__ = ["ParsedRequest", "deployment_routes", "exact_routes", "is_single"]

_POST = "POST /v1/"


def deployment_routes(name: str) -> list[str]:
    """Returns the routes for all versions of a deployment."""
    return [f"{_POST}{name}/{{version}}", f"{_POST}{name}/{{branch}}/{{version}}", f"GET /v1/{name}"]


def exact_routes(deployment: Deployment) -> list[str]:
    """Returns the literal routes of one version, for a worker process that responds itself.

    Literal routes take precedence over those of `deployment_routes`.
    """
    branch = deployment.branch.replace("/", "~")
    prefixes = [*([deployment.name] if deployment.branch == MAIN else []), f"{deployment.name}/{branch}"]
    return [f"{_POST}{prefix}/{version}" for prefix in prefixes for version in ("latest", deployment.version)]


@dataclass(slots=True)
class ParsedRequest:
    """An authenticated request and the deployment that it addresses."""

    deployment: Deployment
    body: bytes
    headers: dict[str, str]
    alias: str | None
    """The version as named in the path, unless it is a number."""
    single: bool
    """True if `data` is one argument, whatever its form."""

    @classmethod
    def parse(cls, request: Request, table: DeploymentTable, keys: ApiKeys) -> ParsedRequest:
        """Parses a `POST` request.

        Raises:
            RequestError: the deployment does not exist, the API key is invalid, or the method is not `POST`.
        """
        parsed = cls.parse_post(request, table, keys)
        if parsed is None:
            raise RequestError("send the request by POST", 405)
        return parsed

    @classmethod
    def parse_post(cls, request: Request, table: DeploymentTable, keys: ApiKeys) -> ParsedRequest | None:
        """Parses a request; None for a `GET`. Raises the errors of `parse`."""
        route = request.route
        if route is None:
            raise RequestError("send requests for a deployment to its own path, /v1/DEPLOYMENT/VERSION", 403)
        if not route.startswith(_POST):
            return None
        headers, params = request.headers, request.path_params
        keys.check(headers)
        name, *rest = route[len(_POST) :].split("/")
        *branch, version = (params[part[1:-1]] if part.startswith("{") else part for part in rest)
        deployment = table.find(name, version, branch[0].replace("~", "/") if branch else MAIN)
        alias = None if version.isdigit() else version
        return cls(deployment, request.body or b"", headers, alias, is_single(headers))
