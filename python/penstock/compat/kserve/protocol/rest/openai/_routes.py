"""OpenAI's routes for KServe's models, as a Penstock model with raw-request routes."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import penstock
from penstock import Final, Request, Response
from penstock.compat.kserve._request import errors
from penstock.compat.kserve.errors import ModelNotFound, ModelNotReady
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.protocol.rest.openai._endpoints import ENDPOINTS
from penstock.compat.kserve.protocol.rest.openai._raw_request import RawRequest, RawResponse
from penstock.compat.kserve.protocol.rest.openai._responses import body_of, events, is_error, is_stream
from penstock.compat.kserve.protocol.rest.openai._signatures import call, takes_old
from penstock.compat.kserve.protocol.rest.openai.errors import (
    OpenAIError,
    create_error_response,
    response_of,
    status_of,
)
from penstock.compat.kserve.protocol.rest.openai.openai_model import OpenAIModel
from penstock.compat.kserve.protocol.rest.openai.types import Model, ModelList
from penstock.compat.kserve.protocol.rest.openai.types._parsing import ValidationError
from penstock.integrations import json_text

if TYPE_CHECKING:
    from penstock.compat.kserve._request.bind_options import LoopHooks

__all__ = ["openai_routes", "route_prefix"]

PREFIX = "KSERVE_OPENAI_ROUTE_PREFIX"
EVENTS = "text/event-stream; charset=utf-8"
CONCURRENCY = 1024
"""The most concurrent requests."""


def route_prefix() -> str:
    """Returns the prefix of OpenAI's paths: KSERVE_OPENAI_ROUTE_PREFIX, by default `/openai`."""
    prefix = os.environ.get(PREFIX, "/openai").rstrip("/")
    return prefix if prefix.startswith("/") or not prefix else f"/{prefix}"


def openai_routes(
    models: Iterable[Any] | Mapping[str, Any], *, loop_hooks: LoopHooks | None = None
) -> list[penstock.Model[..., Any]]:
    """Returns the Penstock model of OpenAI's routes; an empty list without OpenAI models.

    Args:
        models: Registered models, as an iterable or by name. A dictionary of OpenAI models alone is read on each
            request, and may change.
        loop_hooks: Callbacks of the handlers' event loop, on which the models' engines run.
    """
    given: Any = models
    by_name: Mapping[str, Any] = given if isinstance(given, Mapping) else {one.name: one for one in given}
    if not all(isinstance(one, OpenAIModel) for one in by_name.values()):
        by_name = {name: one for name, one in by_name.items() if isinstance(one, OpenAIModel)}
    openai_models = by_name
    if not openai_models:
        return []
    prefix = route_prefix()
    routes = [f"POST {prefix}/v1/{kind.path}" for kind in ENDPOINTS.values()]
    if prefix:
        # Without a prefix, KServe's own routes of these paths win.
        routes += [f"GET {prefix}/v1/models", f"GET {prefix}/v1/models/{{model}}"]

    class Routes(_Handler):
        """OpenAI's API for the models of this server."""

        def __init__(self) -> None:
            super().__init__(openai_models, prefix)
            if loop_hooks is not None:
                loop_hooks.begin()

        async def close(self) -> None:
            """Closes the models' clients and ends their engines."""
            await super().close()
            if loop_hooks is not None:
                await loop_hooks.end()

    options: Any = {"name": "openai", "routes": routes, "max_concurrency": CONCURRENCY}
    return [penstock.model(**options)(Routes)]


class _Handler:
    def __init__(self, models: Mapping[str, Any], prefix: str) -> None:
        self._models, self._prefix, self._started = models, prefix, int(time.time())

    async def __call__(self, request: Request) -> AsyncIterator[Response | Final]:
        """Handles a request; yields chunks if the response is streamed."""
        if request.route is None:
            raise penstock.InvalidInput("this model answers HTTP requests to OpenAI's paths only")
        raw_response = RawResponse()
        try:
            result = await self._call_handler(request, raw_response)
            if is_stream(result):
                # The first chunk is awaited here, so that a handler that fails at once has its own status.
                chunks = events(result)
                head = await anext(chunks, b"")
            else:
                head = None
        except Exception as raised:
            yield Final(_error_response(raised))
            return
        if head is None:
            yield Final(_full_response(result, raw_response))
            return
        headers = {"cache-control": "no-cache", **raw_response.headers}
        yield Response(
            head,
            status=raw_response.status_code or 200,
            headers=headers,
            content_type="text/event-stream; charset=utf-8",
        )
        try:
            async for chunk in chunks:
                yield Response(chunk)
        finally:
            await chunks.aclose()

    async def close(self) -> None:
        """Closes the models' connections."""
        for model in self._models.values():
            close = getattr(model, "close_clients", None)
            if close is not None:
                await close()

    async def _call_handler(self, request: Request, raw_response: RawResponse) -> Any:
        method, path = str(request.route).split(f" {self._prefix}/v1/", 1)
        if method == "GET":
            return await self._describe(request)
        kind = ENDPOINTS[path]
        body_object = _object(request.body)
        if not isinstance(body_object, Mapping) or body_object.get("model") is None:
            raise ValidationError(kind.name, kind.problems(body_object))
        model = await self._ready(body_object["model"])
        handler = getattr(model, kind.method, None)
        if handler is None:
            return create_error_response(f"Model {body_object['model']} does not support {kind.name} API")
        context = {"headers": dict(request.headers), "response": raw_response}
        openai_request = kind.openai_request(body_object, context, old=takes_old(model, kind.method))
        return await call(handler, openai_request, RawRequest(request), context)

    async def _describe(self, request: Request) -> Any:
        name = request.path_params.get("model")
        if name is None:
            return ModelList(data=[Model(id=one, created=self._started) for one in self._models])
        await self._ready(name)
        # KServe's response has no body, only a status.
        return None

    async def _ready(self, name: str) -> Any:
        model = self._models.get(name)
        if model is None:
            raise ModelNotFound(name)
        healthy = model.healthy()
        if not (await healthy if isawaitable(healthy) else healthy):
            raise ModelNotReady(name)
        return model


def _object(body: bytes) -> Any:
    try:
        return json_text.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotJson(error) from None


class NotJson(Exception):
    """The body is not JSON."""


def _full_response(result: Any, raw_response: RawResponse) -> Response:
    if hasattr(result, "status_code") and hasattr(result, "body"):
        # A web framework's response.
        headers = {name: value for name, value in dict(result.headers).items() if name.lower() != "content-length"}
        return Response(bytes(result.body), status=result.status_code, headers={**headers, **raw_response.headers})
    status = status_of(result) if is_error(result) else raw_response.status_code or 200
    return Response(body_of(result), status=status, headers=raw_response.headers, content_type="application/json")


def _error_response(raised: Exception) -> Response:
    if isinstance(raised, OpenAIError):
        logger.error("Exception:", exc_info=raised)
        return _full_response(response_of(raised), RawResponse())
    if isinstance(raised, NotJson):
        (error,) = raised.args
        detail = {"type": "json_invalid", "loc": ["body", getattr(error, "pos", 0)], "msg": "JSON decode error"}
        return _validation_response([{**detail, "input": {}, "ctx": {"error": getattr(error, "msg", str(error))}}])
    if isinstance(raised, ValidationError):
        return _validation_response([one.as_dict(("body",)) for one in raised.problems])
    result = errors.error_response(raised, over_grpc=False)
    if isinstance(result, BaseException):
        raise result
    raw_response: Response = result
    return raw_response


def _validation_response(detail: list[dict[str, Any]]) -> Response:
    return Response(body_of({"detail": detail}), status=422, content_type="application/json")
