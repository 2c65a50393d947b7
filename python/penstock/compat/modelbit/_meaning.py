"""What a request means: which deployment, and whether its caller may ask it."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from penstock import Request
from penstock.compat.modelbit._deployment import MAIN, Deployment
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._table import Table
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Keys", "Meant", "routes_of"]

_POST = "POST /v1/"


def routes_of(name: str) -> list[str]:
    """The routes of a deployment, whatever its versions."""
    return [f"{_POST}{name}/{{version}}", f"{_POST}{name}/{{branch}}/{{version}}", f"GET /v1/{name}"]


class Keys:
    """The API keys."""

    def __init__(self, settings: Settings) -> None:
        self._keys, self._required = [one.encode() for one in settings.keys], settings.require_key

    def check(self, headers: Mapping[str, str]) -> None:
        """Refuses who has none of them.

        Raises:
            BadCall: that is so.
        """
        if not self._keys:
            return
        given = headers.get("authorization")
        if given is None:
            if self._required:
                raise BadCall("an API key is needed: send it as the header Authorization", 401)
            return
        key = given.removeprefix("Bearer ").strip().encode()
        found = [hmac.compare_digest(key, one) for one in self._keys]
        if not any(found):
            raise BadCall("the API key is not valid", 401)


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
        version, branch = params["version"], params.get("branch")
        name = route[len(_POST) :].partition("/")[0]
        deployment = table.find(name, version, MAIN if branch is None else branch.replace("~", "/"))
        single = headers.get("x-single", "").lower() == "true"
        return cls(deployment, request.body or b"", headers, None if version.isdigit() else version, single)
