"""`Gate`: the model that has the door's routes, and asks the deployments."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
import uuid
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

from penstock import Context, Request, Response
from penstock.compat.modelbit import _webhooks
from penstock.compat.modelbit._arguments import body_of
from penstock.compat.modelbit._computing import Asked, Computed, compute
from penstock.compat.modelbit._deployment import MAIN, Deployment
from penstock.compat.modelbit._endpoints import Backend, Endpoint
from penstock.compat.modelbit._links import Links
from penstock.compat.modelbit._record import Entry, RequestLog
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._table import Table
from penstock.compat.modelbit._wishes import Wishes, wishes_of
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Gate"]

_JSON = "application/json"


@dataclass(frozen=True)
class _Called:
    """One request, and how it came."""

    body: bytes
    headers: dict[str, str]
    ctx: Context
    alias: str | None = None
    """What it named instead of a version, or the endpoint's backend."""
    source: str = "rest"
    """`rest`, or the endpoint."""

    @property
    def single(self) -> bool:
        """Whether its data is one argument, whatever it looks like."""
        return self.headers.get("x-single", "").lower() == "true"


class Gate:
    """Answers the door's routes.

    Args:
        name: The name of its model.
        table: Which deployments there are.
        settings: How they are served.
    """

    def __init__(self, name: str, table: Table, settings: Settings) -> None:
        self._name, self._table, self._settings = name, table, settings
        self._links = Links(settings.links or None, settings.link_seconds)
        self._log = RequestLog(settings.log) if settings.log else None
        self._keys = [one.encode() for one in settings.keys]
        self._running: Counter[tuple[str, str, int]] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()

    def routes(self) -> list[str]:
        """Its routes: literal ones, so that several of these models can be in one server."""
        return [
            *(
                route
                for name in self._table.names
                for route in (
                    f"POST /v1/{name}/{{version}}",
                    f"POST /v1/{name}/{{branch}}/{{version}}",
                    f"GET /v1/{name}",
                )
            ),
            *(f"POST /v1/endpoint/{one.name}" for one in self._table.endpoints),
            f"GET /v1/links/{self._name}/{{token}}",
        ]

    async def answer(self, request: Request, ctx: Context) -> Response:
        """Answers a request to one of the routes."""
        try:
            return await self._answer(request, ctx)
        except BadCall as error:
            return Response(json.dumps({"error": str(error)}), status=error.status, content_type=_JSON)

    async def _answer(self, request: Request, ctx: Context) -> Response:
        route, params = request.route, request.path_params
        if route is None:
            raise BadCall("the door takes no tensors; ask a deployment by its own path, /v1/DEPLOYMENT/VERSION")
        method, _, path = route.partition(" ")
        if method == "GET" and "token" in params:
            # A link is its own key.
            return Response(self._links.fetch(params["token"]), content_type=_JSON)
        headers = request.headers
        self._check_key(headers.get("authorization"))
        name = path.split("/")[2]
        if method == "GET":
            return Response(json.dumps(self._states(name)), content_type=_JSON)
        body = request.body or b""
        if name == "endpoint":
            endpoint = self._table.endpoint(path.split("/")[3])
            return await self._endpoint(endpoint, _Called(body, headers, ctx, source=endpoint.name))
        version, branch = params["version"], params.get("branch", MAIN).replace("~", "/")
        deployment = self._table.find(name, version, branch)
        alias = None if version.isdigit() else version
        return await self._respond(deployment, _Called(body, headers, ctx, alias))

    def _check_key(self, given: str | None) -> None:
        if not self._keys:
            return
        if given is None:
            if self._settings.require_key:
                raise BadCall("an API key is needed: send it as the header Authorization", 401)
            return
        key = given.removeprefix("Bearer ").strip().encode()
        found = [hmac.compare_digest(key, one) for one in self._keys]
        if not any(found):
            raise BadCall("the API key is not valid", 401)

    async def _endpoint(self, endpoint: Endpoint, called: _Called) -> Response:
        chosen = endpoint.choose(body_of(called.body) if endpoint.supplied_key else None)
        for mirror in endpoint.mirrors:
            sent = asyncio.Event()
            await self._begin(self._mirror(mirror, called, sent), sent)
        if not chosen.name:
            return Response(json.dumps({"data": chosen.value}), content_type=_JSON)
        deployment = self._table.find(chosen.name, chosen.version, chosen.branch)
        return await self._respond(deployment, replace(called, alias=chosen.label))

    async def _mirror(self, mirror: Backend, called: _Called, sent: asyncio.Event) -> None:
        """What comes of it is in the log alone."""
        try:
            deployment = self._table.find(mirror.name, mirror.version, mirror.branch)
            asked = Asked(self._settings.timeout, called.single, self._log is not None, sent)
            copy = replace(called, alias=mirror.label, source=f"{called.source} (mirror)")
            await self._computed(deployment, copy, asked)
        except BadCall as error:
            called.ctx.logger.warning("mirror %r of endpoint %r: %s", mirror.label, called.source, error)

    async def _respond(self, deployment: Deployment, called: _Called) -> Response:
        wishes = wishes_of(called.body, self._settings)
        sent = None if wishes.webhook is None else asyncio.Event()
        asked = Asked(wishes.seconds, called.single, self._log is not None, sent)
        if sent is None:
            computed = await self._computed(deployment, called, asked)
            return self._response(self._linked(computed, called) if wishes.links else computed)
        batch_id = str(uuid.uuid4())

        async def later() -> None:
            computed = await self._computed(deployment, called, asked, batch_id)
            await self._post(self._linked(computed, called) if wishes.links else computed, wishes, batch_id)

        await self._begin(later(), sent)
        return Response(json.dumps({"batchId": batch_id}), content_type=_JSON)

    async def _post(self, computed: Computed, wishes: Wishes, batch_id: str) -> None:
        await asyncio.to_thread(
            _webhooks.post_until_taken,
            wishes.webhook or "",
            computed.body,
            batch_id,
            ignores_timeout=wishes.ignores_timeout,
        )

    async def _computed(
        self, deployment: Deployment, called: _Called, asked: Asked, batch_id: str | None = None
    ) -> Computed:
        key = deployment.name, deployment.branch, deployment.version
        began = time.time()
        self._running[key] += 1
        try:
            computed = await compute(deployment, called.body, asked, self._settings, called.ctx)
        finally:
            self._running[key] -= 1
        if self._log is not None:
            entry = Entry(
                name=deployment.name,
                version=deployment.version,
                branch=deployment.branch,
                alias=called.alias,
                source=called.source,
                began=began,
                ended=time.time(),
                runtimes=computed.runtimes,
                rows=computed.rows,
                error=computed.error,
                batch_id=batch_id,
                workers=self._settings.workers,
            )
            await asyncio.to_thread(self._log.write, entry)
        return computed

    def _linked(self, computed: Computed, called: _Called) -> Computed:
        if computed.status >= 400:
            return computed
        base = self._settings.public_url or f"http://{called.headers.get('host', 'localhost')}"
        url = f"{base}/v1/links/{self._name}/{self._links.keep(computed.body)}"
        return Computed(json.dumps({"data": url}).encode())

    @staticmethod
    def _response(computed: Computed) -> Response:
        retry = {"Retry-After": "1"} if computed.status in (429, 503) else {}
        return Response(computed.body, status=computed.status, headers=retry, content_type=_JSON)

    def _states(self, name: str) -> dict[str, Any]:
        """What there is of a deployment, and what it does now."""
        branches = {}
        for branch, versions, aliases in self._table.of(name):
            branches[branch] = {
                "latest": max(versions),
                "aliases": aliases,
                "versions": [
                    {
                        "version": number,
                        "state": "Executing" if self._running[name, branch, number] > 0 else "Ready",
                        "keepWarm": self._settings.workers,
                    }
                    for number in sorted(versions)
                ],
            }
        return {"name": name, "branches": branches}

    async def _begin(self, work: Coroutine[Any, Any, None], sent: asyncio.Event) -> None:
        """Does something that nobody waits for, but for its being sent: a caller may leave then."""
        task = asyncio.get_running_loop().create_task(work)
        # The loop itself would let go of it.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: sent.set())
        await sent.wait()
