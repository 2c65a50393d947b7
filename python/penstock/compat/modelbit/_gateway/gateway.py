"""`Gate`: answers the integration's routes, and asks the deployments."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass, replace
from typing import Any

from penstock import Context, PenstockError, Request, Response, Timeout
from penstock.compat.modelbit._function.in_process import Here
from penstock.compat.modelbit._function.runner import Runner, refused
from penstock.compat.modelbit._gateway import webhooks
from penstock.compat.modelbit._gateway.api_keys import Keys, digests
from penstock.compat.modelbit._gateway.background import Later
from penstock.compat.modelbit._gateway.compute import Asked, Computed, compute, failed, late
from penstock.compat.modelbit._gateway.in_flight import UnderWay
from penstock.compat.modelbit._gateway.links import Links
from penstock.compat.modelbit._gateway.parse_request import Meant, is_single, routes_of
from penstock.compat.modelbit._gateway.request_log import Entry, RequestLog
from penstock.compat.modelbit._gateway.request_options import Wishes, wishes_nothing, wishes_of
from penstock.compat.modelbit._request import body_of
from penstock.compat.modelbit._response import JSON, given, usual
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit._spec.endpoints import Backend, Endpoint
from penstock.compat.modelbit._spec.table import Table
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Gate"]


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
        return is_single(self.headers)


class Gate:
    """Answers the integration's routes.

    Args:
        name: The name of its model.
        table: Which deployments there are.
        settings: How they are served.
    """

    def __init__(self, name: str, table: Table, settings: Settings) -> None:
        self.name = name
        """The name of its model."""
        self._table, self._settings = table, settings
        self._keys = Keys(digests(settings.keys), settings.require_key)
        self._links = Links(settings.links or None, settings.link_seconds)
        self._log = RequestLog(settings.log) if settings.log else None
        self._running, self._later = UnderWay(), Later()
        self.here = Here()
        """The functions of this process."""

    def routes(self) -> list[str]:
        """The routes of its own model: literal ones, so that several of these models can be in one server."""
        return [
            *(route for name in self._table.names if not self._table.owner(name) for route in routes_of(name)),
            *(f"POST /v1/endpoint/{one.name}" for one in self._table.endpoints),
            f"GET /v1/links/{self.name}/{{token}}",
        ]

    def routes_of(self, deployment: Deployment) -> list[str]:
        """The routes that a deployment's model has itself."""
        return routes_of(deployment.name) if self._table.owner(deployment.name) == deployment.model else []

    async def answer(self, request: Request, ctx: Context) -> Response:
        """Answers a request to one of the routes."""
        try:
            return await self._answer(request, ctx)
        except BadCall as error:
            return given(refused(error))

    def answer_now(self, request: Request, ctx: Context) -> Response:
        """The same on this thread, by a function of this process, if the request wishes nothing else."""
        try:
            meant = Meant.by(request, self._table, self._keys)
            runner = None if meant is None or self._settings.times_out else self._runner(meant)
            if meant is None or runner is None:
                return self._later.run(self.answer(request, ctx))
            with self._running.of(meant.deployment):
                return given(runner.answer([meant.body], [usual(meant.single)])[0])
        except BadCall as error:
            return given(refused(error))

    async def answer_soon(self, request: Request, ctx: Context) -> Response:
        """The same on the event loop that runs, by an async function of this process."""
        try:
            meant = Meant.by(request, self._table, self._keys)
            runner = None if meant is None else self._runner(meant)
            if meant is None or runner is None or not runner.is_async:
                return await self.answer(request, ctx)
            with self._running.of(meant.deployment):
                waiting = runner.answer_later(meant.body, usual(meant.single))
                try:
                    return given(await asyncio.wait_for(waiting, self._settings.timeout))
                except asyncio.TimeoutError:
                    return self._response(late(meant.deployment, self._settings.timeout))
        except BadCall as error:
            return given(refused(error))

    def _runner(self, meant: Meant) -> Runner | None:
        """What runs the function that a request means at once; None if there is more to do."""
        if self._log is not None or not wishes_nothing(meant.body):
            return None
        return self.here.find(meant.deployment)

    async def finish(self) -> None:
        """Waits for a while for what nobody else waits for."""
        await self._later.finish()

    def leave_now(self, deployment: Deployment) -> None:
        """Lets go of a function of this process; what `answer_now` has begun is waited for as `finish` does."""
        self._later.finish_now()
        if self.here.leave(deployment):
            self._later.close()

    async def _answer(self, request: Request, ctx: Context) -> Response:
        route = request.route or ""
        if route.startswith("GET "):
            return self._read(request, ctx)
        if request.refused is not None:
            return self._response(self._refused(request, request.refused))
        if not route.startswith("POST /v1/endpoint/"):
            meant = Meant.of(request, self._table, self._keys)
            return await self._respond(meant.deployment, _Called(meant.body, meant.headers, ctx, meant.alias))
        self._keys.check(request.headers)
        endpoint = self._table.endpoint(route.rpartition("/")[2])
        return await self._endpoint(endpoint, _Called(request.body or b"", request.headers, ctx, source=endpoint.name))

    def _read(self, request: Request, ctx: Context) -> Response:
        token = request.path_params.get("token")
        if token is not None:
            # A link is its own key.
            return Response(self._links.fetch(token), content_type=JSON)
        self._keys.check(request.headers)
        return Response(json.dumps(self._states((request.route or "").rpartition("/")[2], ctx)), content_type=JSON)

    def _refused(self, request: Request, why: PenstockError) -> Computed:
        """The answer where a deployment's process that answers by itself has none."""
        deployment = Meant.of(request, self._table, self._keys).deployment
        return late(deployment, self._settings.timeout) if isinstance(why, Timeout) else failed(why)

    async def _endpoint(self, endpoint: Endpoint, called: _Called) -> Response:
        chosen = endpoint.choose(body_of(called.body) if endpoint.supplied_key else None)
        for mirror in endpoint.mirrors:
            sent = asyncio.Event()
            await self._later.begin(self._mirror(mirror, called, sent), sent)
        if not chosen.name:
            return Response(json.dumps({"data": chosen.value}), content_type=JSON)
        deployment = self._table.find(chosen.name, chosen.version, chosen.branch)
        return await self._respond(deployment, replace(called, alias=chosen.label))

    async def _mirror(self, mirror: Backend, called: _Called, sent: asyncio.Event) -> None:
        """What comes of it is in the log alone."""
        try:
            deployment = self._table.find(mirror.name, mirror.version, mirror.branch)
            asked = Asked(called.body, self._settings.timeout, called.single, self._log is not None, sent)
            copy = replace(called, alias=mirror.label, source=f"{called.source} (mirror)")
            await self._computed(deployment, copy, asked)
        except BadCall as error:
            called.ctx.logger.warning("mirror %r of endpoint %r: %s", mirror.label, called.source, error)

    async def _respond(self, deployment: Deployment, called: _Called) -> Response:
        wishes = wishes_of(called.body, self._settings)
        sent = None if wishes.webhook is None else asyncio.Event()
        asked = Asked(called.body, wishes.seconds, called.single, self._log is not None, sent)
        if sent is None:
            computed = await self._computed(deployment, called, asked)
            return self._response(self._linked(computed, called) if wishes.links else computed)
        batch_id = str(uuid.uuid4())

        async def later() -> None:
            computed = await self._computed(deployment, called, asked, batch_id)
            await self._post(self._linked(computed, called) if wishes.links else computed, wishes, batch_id)

        await self._later.begin(later(), sent)
        return Response(json.dumps({"batchId": batch_id}), content_type=JSON)

    async def _post(self, computed: Computed, wishes: Wishes, batch_id: str) -> None:
        await asyncio.to_thread(
            webhooks.post_until_taken,
            wishes.webhook or "",
            computed.body,
            batch_id,
            ignores_timeout=wishes.ignores_timeout,
        )

    async def _computed(
        self, deployment: Deployment, called: _Called, asked: Asked, batch_id: str | None = None
    ) -> Computed:
        began = time.time()
        runner = self.here.find(deployment)
        with self._running.of(deployment):
            computed = await compute(deployment, runner, asked, called.ctx)
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
        url = f"{base}/v1/links/{self.name}/{self._links.keep(computed.body)}"
        return Computed(json.dumps({"data": url}).encode())

    @staticmethod
    def _response(computed: Computed) -> Response:
        retry = {"Retry-After": "1"} if computed.status in (429, 503) else {}
        return Response(computed.body, status=computed.status, headers=retry, content_type=JSON)

    def _executes(self, deployment: Deployment, ctx: Context) -> bool:
        """Whether it computes for a request now, whoever has it do so."""
        if self._running.has(deployment):
            return True
        try:
            return deployment.direct and ctx.models[deployment.model, str(deployment.version)].in_flight > 0
        except PenstockError:
            # It is not loaded.
            return False

    def _states(self, name: str, ctx: Context) -> dict[str, Any]:
        """What there is of a deployment, and what it does now."""
        branches = {}
        for branch, versions, aliases in self._table.of(name):
            branches[branch] = {
                "latest": max(versions),
                "aliases": aliases,
                "versions": [
                    {
                        "version": number,
                        "state": "Executing" if self._executes(versions[number], ctx) else "Ready",
                        "keepWarm": self._settings.workers,
                    }
                    for number in sorted(versions)
                ],
            }
        return {"name": name, "branches": branches}
