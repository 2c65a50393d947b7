"""`Gateway`: handles the REST routes and calls the deployments."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass, replace
from typing import Any

from penstock import Context, PenstockError, Request, Response, Timeout
from penstock.compat.modelbit._api_keys import ApiKeys, key_digests
from penstock.compat.modelbit._function.in_process import InProcessFunctions
from penstock.compat.modelbit._function.runner import Runner, call_options
from penstock.compat.modelbit._gateway import webhooks
from penstock.compat.modelbit._gateway.background import BackgroundTasks
from penstock.compat.modelbit._gateway.compute import (
    ComputeRequest,
    ComputeResult,
    compute,
    error_result,
    timeout_result,
)
from penstock.compat.modelbit._gateway.in_flight import InFlight
from penstock.compat.modelbit._gateway.links import Links
from penstock.compat.modelbit._gateway.parse_request import ParsedRequest, deployment_routes, is_single
from penstock.compat.modelbit._gateway.request_log import LogEntry, RequestLog
from penstock.compat.modelbit._gateway.request_options import RequestOptions, has_no_options, parse_options
from penstock.compat.modelbit._request import parse_body
from penstock.compat.modelbit._response import JSON, error_response, to_response
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit._spec.endpoints import Backend, Endpoint
from penstock.compat.modelbit._spec.table import DeploymentTable
from penstock.compat.modelbit.errors import RequestError

__all__ = ["Gateway"]


@dataclass(frozen=True)
class _Call:
    """One request to a deployment and its origin."""

    body: bytes
    headers: dict[str, str]
    ctx: Context
    alias: str | None = None
    """The version's alias in the path, or the label of the endpoint's backend."""
    source: str = "rest"
    """`rest`, or the endpoint's name."""

    @property
    def single(self) -> bool:
        """True if `data` is one argument, whatever its form."""
        return is_single(self.headers)


class Gateway:
    """Handles the integration's REST routes.

    Args:
        name: Name of the gateway's model.
        table: The deployments that are served.
        settings: The integration's options.
    """

    def __init__(self, name: str, table: DeploymentTable, settings: Settings) -> None:
        self.name = name
        """Name of the gateway's model."""
        self._table, self._settings = table, settings
        self._keys = ApiKeys(key_digests(settings.keys), settings.require_key)
        self._links = Links(settings.links or None, settings.link_seconds)
        self._log = RequestLog(settings.log) if settings.log else None
        self._in_flight, self._background = InFlight(), BackgroundTasks()
        self.functions = InProcessFunctions()
        """Functions loaded in the server's process."""

    def routes(self) -> list[str]:
        """Returns the routes of the gateway's model: literal, so that several gateways fit in one server."""
        return [
            *(
                route
                for name in self._table.names
                if not self._table.route_owner(name)
                for route in deployment_routes(name)
            ),
            *(f"POST /v1/endpoint/{one.name}" for one in self._table.endpoints),
            f"GET /v1/links/{self.name}/{{token}}",
        ]

    def routes_of(self, deployment: Deployment) -> list[str]:
        """Returns the routes that the deployment's model handles instead of the gateway's."""
        owns_routes = self._table.route_owner(deployment.name) == deployment.model
        return deployment_routes(deployment.name) if owns_routes else []

    async def handle(self, request: Request, ctx: Context) -> Response:
        """Responds to a request to one of the routes."""
        try:
            return await self._handle(request, ctx)
        except RequestError as error:
            return to_response(error_response(error))

    def handle_sync(self, request: Request, ctx: Context) -> Response:
        """Responds on this thread by calling a function of this process.

        A request with options, and a `GET`, go through `handle` on the background event loop.
        """
        try:
            parsed = ParsedRequest.parse_post(request, self._table, self._keys)
            runner = None if parsed is None or self._settings.has_timeout else self._in_process_runner(parsed)
            if parsed is None or runner is None:
                return self._background.run(self.handle(request, ctx))
            with self._in_flight.track(parsed.deployment):
                return to_response(runner.respond([parsed.body], [call_options(parsed.single)])[0])
        except RequestError as error:
            return to_response(error_response(error))

    async def handle_async(self, request: Request, ctx: Context) -> Response:
        """Responds on the running event loop by calling an async function of this process."""
        try:
            parsed = ParsedRequest.parse_post(request, self._table, self._keys)
            runner = None if parsed is None else self._in_process_runner(parsed)
            if parsed is None or runner is None or not runner.is_async:
                return await self.handle(request, ctx)
            with self._in_flight.track(parsed.deployment):
                response = runner.respond_async(parsed.body, call_options(parsed.single))
                try:
                    return to_response(await asyncio.wait_for(response, self._settings.timeout))
                except asyncio.TimeoutError:
                    return self._response(timeout_result(parsed.deployment, self._settings.timeout))
        except RequestError as error:
            return to_response(error_response(error))

    def _in_process_runner(self, parsed: ParsedRequest) -> Runner | None:
        """Returns the runner for a direct call; None if the request is logged, has options, or runs elsewhere."""
        if self._log is not None or not has_no_options(parsed.body):
            return None
        return self.functions.find(parsed.deployment)

    async def drain(self) -> None:
        """Waits a bounded time for background tasks."""
        await self._background.drain()

    def unload(self, deployment: Deployment) -> None:
        """Drains the background tasks of `handle_sync` and unloads a function of this process."""
        self._background.drain_sync()
        if self.functions.unload(deployment):
            self._background.close()

    async def _handle(self, request: Request, ctx: Context) -> Response:
        route = request.route or ""
        if route.startswith("GET "):
            return self._handle_get(request, ctx)
        if request.refused is not None:
            return self._response(self._fallback_result(request, request.refused))
        if not route.startswith("POST /v1/endpoint/"):
            parsed = ParsedRequest.parse(request, self._table, self._keys)
            return await self._respond(parsed.deployment, _Call(parsed.body, parsed.headers, ctx, parsed.alias))
        self._keys.check(request.headers)
        endpoint = self._table.endpoint(route.rpartition("/")[2])
        call = _Call(request.body or b"", request.headers, ctx, source=endpoint.name)
        return await self._handle_endpoint(endpoint, call)

    def _handle_get(self, request: Request, ctx: Context) -> Response:
        token = request.path_params.get("token")
        if token is not None:
            # The signed token authenticates the request.
            return Response(self._links.fetch(token), content_type=JSON)
        self._keys.check(request.headers)
        return Response(json.dumps(self._status((request.route or "").rpartition("/")[2], ctx)), content_type=JSON)

    def _fallback_result(self, request: Request, reason: PenstockError) -> ComputeResult:
        """Returns the error for a request that a deployment's worker process failed to answer."""
        deployment = ParsedRequest.parse(request, self._table, self._keys).deployment
        if isinstance(reason, Timeout):
            return timeout_result(deployment, self._settings.timeout)
        return error_result(reason)

    async def _handle_endpoint(self, endpoint: Endpoint, call: _Call) -> Response:
        chosen = endpoint.choose(parse_body(call.body) if endpoint.supplied_key else None)
        for mirror in endpoint.mirrors:
            sent = asyncio.Event()
            await self._background.start(self._mirror(mirror, call, sent), sent)
        if not chosen.name:
            return Response(json.dumps({"data": chosen.value}), content_type=JSON)
        deployment = self._table.find(chosen.name, chosen.version, chosen.branch)
        return await self._respond(deployment, replace(call, alias=chosen.label))

    async def _mirror(self, mirror: Backend, call: _Call, sent: asyncio.Event) -> None:
        """Sends a copy of a request to a mirror; its result appears in the log only."""
        try:
            deployment = self._table.find(mirror.name, mirror.version, mirror.branch)
            request = ComputeRequest(call.body, self._settings.timeout, call.single, self._log is not None, sent)
            copy = replace(call, alias=mirror.label, source=f"{call.source} (mirror)")
            await self._compute(deployment, copy, request)
        except RequestError as error:
            call.ctx.logger.warning("mirror %r of endpoint %r: %s", mirror.label, call.source, error)

    async def _respond(self, deployment: Deployment, call: _Call) -> Response:
        options = parse_options(call.body, self._settings)
        sent = None if options.webhook is None else asyncio.Event()
        request = ComputeRequest(call.body, options.timeout, call.single, self._log is not None, sent)
        if sent is None:
            result = await self._compute(deployment, call, request)
            return self._response(self._as_link(result, call) if options.links else result)
        batch_id = str(uuid.uuid4())

        async def compute_and_post() -> None:
            result = await self._compute(deployment, call, request, batch_id)
            await self._post(self._as_link(result, call) if options.links else result, options, batch_id)

        await self._background.start(compute_and_post(), sent)
        return Response(json.dumps({"batchId": batch_id}), content_type=JSON)

    async def _post(self, result: ComputeResult, options: RequestOptions, batch_id: str) -> None:
        await asyncio.to_thread(
            webhooks.post_with_retries,
            options.webhook or "",
            result.body,
            batch_id,
            ignores_timeout=options.ignores_timeout,
        )

    async def _compute(
        self, deployment: Deployment, call: _Call, request: ComputeRequest, batch_id: str | None = None
    ) -> ComputeResult:
        started = time.time()
        runner = self.functions.find(deployment)
        with self._in_flight.track(deployment):
            result = await compute(deployment, runner, request, call.ctx)
        if self._log is not None:
            entry = LogEntry(
                name=deployment.name,
                version=deployment.version,
                branch=deployment.branch,
                alias=call.alias,
                source=call.source,
                started=started,
                ended=time.time(),
                runtimes=result.runtimes,
                rows=result.rows,
                error=result.error,
                batch_id=batch_id,
                workers=self._settings.workers,
            )
            await asyncio.to_thread(self._log.write, entry)
        return result

    def _as_link(self, result: ComputeResult, call: _Call) -> ComputeResult:
        """Stores a result and returns one with its URL; errors are returned unchanged."""
        if result.status >= 400:
            return result
        base = self._settings.public_url or f"http://{call.headers.get('host', 'localhost')}"
        url = f"{base}/v1/links/{self.name}/{self._links.store(result.body)}"
        return ComputeResult(json.dumps({"data": url}).encode())

    @staticmethod
    def _response(result: ComputeResult) -> Response:
        retry = {"Retry-After": "1"} if result.status in (429, 503) else {}
        return Response(result.body, status=result.status, headers=retry, content_type=JSON)

    def _is_executing(self, deployment: Deployment, ctx: Context) -> bool:
        """Returns whether requests are in flight, through the gateway or at the worker processes directly."""
        if self._in_flight.has(deployment):
            return True
        try:
            return deployment.direct and ctx.models[deployment.model, str(deployment.version)].in_flight > 0
        except PenstockError:
            # The model is not loaded.
            return False

    def _status(self, name: str, ctx: Context) -> dict[str, Any]:
        """Returns the versions, aliases and states of a deployment, by branch."""
        branches = {}
        for branch, versions, aliases in self._table.branches(name):
            branches[branch] = {
                "latest": max(versions),
                "aliases": aliases,
                "versions": [
                    {
                        "version": number,
                        "state": "Executing" if self._is_executing(versions[number], ctx) else "Ready",
                        "keepWarm": self._settings.workers,
                    }
                    for number in sorted(versions)
                ],
            }
        return {"name": name, "branches": branches}
