"""`openai_routes`: OpenAI's routes for KServe's models, as models of Penstock with routes of their own."""

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
from penstock.compat.kserve.protocol.rest.openai._handler_kind import KINDS
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
    from penstock.compat.kserve._server.event_loops import LoopSetUp

__all__ = ["openai_routes", "route_prefix"]

PREFIX = "KSERVE_OPENAI_ROUTE_PREFIX"
EVENTS = "text/event-stream; charset=utf-8"
CONCURRENCY = 1024
"""Requests that are under way at once."""


def route_prefix() -> str:
    """What stands before OpenAI's paths: the environment's KSERVE_OPENAI_ROUTE_PREFIX, else `/openai`."""
    prefix = os.environ.get(PREFIX, "/openai").rstrip("/")
    return prefix if prefix.startswith("/") or not prefix else f"/{prefix}"


def openai_routes(
    models: Iterable[Any] | Mapping[str, Any], *, on_loop: LoopSetUp | None = None
) -> list[penstock.Model[..., Any]]:
    """What serves OpenAI's routes for those of the models that are OpenAI's; nothing if none is.

    Args:
        models: What is registered: models, or models by name. A dictionary of OpenAI's models and no others is looked
            at for each request, and may change.
        on_loop: Begins on the event loop of their handlers, where their engines run, and ends with it.
    """
    given: Any = models
    named: Mapping[str, Any] = given if isinstance(given, Mapping) else {one.name: one for one in given}
    if not all(isinstance(one, OpenAIModel) for one in named.values()):
        named = {name: one for name, one in named.items() if isinstance(one, OpenAIModel)}
    ours = named
    if not ours:
        return []
    prefix = route_prefix()
    routes = [f"POST {prefix}/v1/{kind.path}" for kind in KINDS.values()]
    if prefix:
        # Without one, KServe's own routes of these paths go before.
        routes += [f"GET {prefix}/v1/models", f"GET {prefix}/v1/models/{{model}}"]

    class Routes(_Handler):
        """OpenAI's API for the models of this server."""

        def __init__(self) -> None:
            super().__init__(ours, prefix)
            if on_loop is not None:
                on_loop.begin()

        async def close(self) -> None:
            """Ends what runs beside the handlers."""
            await super().close()
            if on_loop is not None:
                await on_loop.end()

    options: Any = {"name": "openai", "routes": routes, "max_concurrency": CONCURRENCY}
    return [penstock.model(**options)(Routes)]


class _Handler:
    def __init__(self, models: Mapping[str, Any], prefix: str) -> None:
        self._models, self._prefix, self._started = models, prefix, int(time.time())

    async def __call__(self, request: Request) -> AsyncIterator[Response | Final]:
        """Answers one request, piece by piece if it is streamed."""
        if request.route is None:
            raise penstock.InvalidInput("this model answers HTTP requests to OpenAI's paths only")
        told = RawResponse()
        try:
            answer = await self._asked(request, told)
            if is_stream(answer):
                # With the first piece, so that a handler that fails at once has its own status.
                pieces = events(answer)
                head = await anext(pieces, b"")
            else:
                head = None
        except Exception as raised:
            yield Final(_failed(raised))
            return
        if head is None:
            yield Final(_whole(answer, told))
            return
        headers = {"cache-control": "no-cache", **told.headers}
        yield Response(
            head, status=told.status_code or 200, headers=headers, content_type="text/event-stream; charset=utf-8"
        )
        try:
            async for piece in pieces:
                yield Response(piece)
        finally:
            await pieces.aclose()

    async def close(self) -> None:
        """Lets connections of the models go, at the end."""
        for model in self._models.values():
            close = getattr(model, "close_clients", None)
            if close is not None:
                await close()

    async def _asked(self, request: Request, told: RawResponse) -> Any:
        method, path = str(request.route).split(f" {self._prefix}/v1/", 1)
        if method == "GET":
            return await self._about(request)
        kind = KINDS[path]
        said = _object(request.body)
        if not isinstance(said, Mapping) or said.get("model") is None:
            raise ValidationError(kind.name, kind.problems(said))
        model = await self._ready(said["model"])
        handler = getattr(model, kind.method, None)
        if handler is None:
            return create_error_response(f"Model {said['model']} does not support {kind.name} API")
        context = {"headers": dict(request.headers), "response": told}
        asked = kind.asked(said, context, old=takes_old(model, kind.method))
        return await call(handler, asked, RawRequest(request), context)

    async def _about(self, request: Request) -> Any:
        name = request.path_params.get("model")
        if name is None:
            return ModelList(data=[Model(id=one, created=self._started) for one in self._models])
        await self._ready(name)
        # KServe says no more than that it is ready.
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
    """A body is no JSON."""


def _whole(answer: Any, told: RawResponse) -> Response:
    if hasattr(answer, "status_code") and hasattr(answer, "body"):
        # An answer of a web framework.
        headers = {name: value for name, value in dict(answer.headers).items() if name.lower() != "content-length"}
        return Response(bytes(answer.body), status=answer.status_code, headers={**headers, **told.headers})
    status = status_of(answer) if is_error(answer) else told.status_code or 200
    return Response(body_of(answer), status=status, headers=told.headers, content_type="application/json")


def _failed(raised: Exception) -> Response:
    if isinstance(raised, OpenAIError):
        logger.error("Exception:", exc_info=raised)
        return _whole(response_of(raised), RawResponse())
    if isinstance(raised, NotJson):
        (error,) = raised.args
        detail = {"type": "json_invalid", "loc": ["body", getattr(error, "pos", 0)], "msg": "JSON decode error"}
        return _refused([{**detail, "input": {}, "ctx": {"error": getattr(error, "msg", str(error))}}])
    if isinstance(raised, ValidationError):
        return _refused([one.as_dict(("body",)) for one in raised.problems])
    answer = errors.failed(raised, over_grpc=False)
    if isinstance(answer, BaseException):
        raise answer
    told: Response = answer
    return told


def _refused(detail: list[dict[str, Any]]) -> Response:
    return Response(body_of({"detail": detail}), status=422, content_type="application/json")
