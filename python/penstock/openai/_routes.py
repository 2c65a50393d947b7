"""`routes`: OpenAI's paths as a raw-request model."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import penstock
from penstock.errors import InvalidInput, SignatureError
from penstock.openai._body import Body
from penstock.openai._errors import OPENAI, ErrorForm, Refused, error_response, unknown_model
from penstock.openai._events import End, Part, encode
from penstock.openai._served import Endpoint, Served

if TYPE_CHECKING:
    from penstock._core import Context
    from penstock._model.model import Model

__all__ = ["routes"]

CONCURRENCY = 4096
"""Limit of concurrent requests."""


def routes(*served: Served, prefix: str = "/v1", name: str = "openai", owned_by: str = "penstock") -> Model[..., Any]:
    """Returns a model with the routes of OpenAI's API. The server needs it and the models that it calls.

    The routes are those of the declared models, such as `POST PREFIX/chat/completions`, and the two routes
    `GET PREFIX/models` and `/models/{model}`. Requests share the queues and batches of their models with other clients.

    Args:
        served: The models and their kinds of routes.
        prefix: Prefix of the paths; clients use it as the end of their `base_url`.
        name: Name of the routes' model in the index of models and in metrics.
        owned_by: The member `owned_by` of each model in the list of models.

    Raises:
        SignatureError: no models, or two of the same name at one route.

    Example:
        >>> serve(embed, complete, openai.routes(openai.Embeddings(embed), openai.Completions(complete)))
    """
    by_path: dict[str, dict[str, tuple[Served, Endpoint]]] = {}
    for one in served:
        if not isinstance(one, Served):
            raise SignatureError(f"openai.routes takes Chat, Completions, Embeddings and their like, not {one!r}")
        for path, endpoint in one.endpoints().items():
            named = by_path.setdefault(path, {})
            if one.name in named:
                raise SignatureError(f"openai.routes: {path} has two models of the name {one.name!r}; pass name=")
            named[one.name] = one, endpoint
    if not by_path:
        raise SignatureError(
            "openai.routes: there is nothing to serve; give at least one Chat, Completions or Embeddings"
        )
    prefix = f"/{prefix.strip('/')}".rstrip("/")
    handler = _Handler(prefix, by_path, owned_by)
    make: Any = penstock.model(
        name=name,
        description="OpenAI's API for the models of this server.",
        routes=[
            *(f"POST {prefix}/{path}" for path in by_path),
            f"GET {prefix}/models",
            f"GET {prefix}/models/{{model...}}",
        ],
        calls=sorted({one.model.name for one in served}),
        max_concurrency=CONCURRENCY,
    )
    made: Model[..., Any] = make(handler.answer)
    made.route_example = encode({"model": served[0].name, **served[0].example}).decode()
    return made


class _Handler:
    def __init__(self, prefix: str, by_path: dict[str, dict[str, tuple[Served, Endpoint]]], owned_by: str) -> None:
        self._prefix, self._by_path, self._owned_by = prefix, by_path, owned_by
        self._names = list(dict.fromkeys(name for named in by_path.values() for name in named))
        self._started = int(time.time())

    async def answer(self, request: penstock.Request, ctx: Context) -> AsyncIterator[Any]:
        """Yields the response, in chunks if the request wants a stream."""
        if request.route is None:
            raise InvalidInput(f"model {ctx.model_name!r} answers HTTP requests to OpenAI's paths only")
        method, path = str(request.route).split(f" {self._prefix}/", 1)
        form = OPENAI
        try:
            if method == "GET":
                given: Any = self._about(request.path_params.get("model"), ctx)
            else:
                form = next(iter(self._by_path[path].values()))[1].errors
                body = Body(request.body)
                given = await self._endpoint(path, body, ctx).answer(body, ctx)
            if isinstance(given, dict | bytes):
                yield penstock.Final(_json(given))
                return
        except Exception as raised:
            yield penstock.Final(_failed(raised, form))
            return
        async with aclosing(given):
            # Proxies cut connections that are silent for long: the server may send comments before the first event.
            yield penstock.EventStream()
            async for chunk in _sent(given, form):
                yield chunk

    def _endpoint(self, path: str, body: Body, ctx: Context) -> Endpoint:
        """The endpoint of a path and of the model that a body names."""
        requested = body.needed("model")
        found = self._by_path[path].get(requested) if isinstance(requested, str) else None
        if found is None or not ctx.client.may_use(found[0].model.name):
            raise self._missing(requested, path, ctx)
        return found[1]

    def _missing(self, requested: object, path: str, ctx: Context) -> Refused:
        if requested in self._visible(ctx):
            return Refused(f"The model {requested!r} is not served by {self._prefix}/{path}", "model")
        return unknown_model(requested)

    def _visible(self, ctx: Context) -> list[str]:
        """The names of models that the client's key allows."""
        served = [pair for named in self._by_path.values() for pair in named.items()]
        allowed = {name for name, (one, _) in served if ctx.client.may_use(one.model.name)}
        return [name for name in self._names if name in allowed]

    def _about(self, name: str | None, ctx: Context) -> dict[str, Any]:
        names = self._visible(ctx)
        if name is None:
            return {"object": "list", "data": [self._card(one) for one in names]}
        if name not in names:
            raise unknown_model(name)
        return self._card(name)

    def _card(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._started, "owned_by": self._owned_by}


async def _sent(parts: AsyncIterator[Part], form: ErrorForm) -> AsyncIterator[Any]:
    """Parts in their wire form. An error before the first one determines the status; a later one is an event."""
    begun = False
    try:
        async for part in parts:
            if isinstance(part, End):
                # One chunk with the last event: many clients leave then, and shall not count as cancelled.
                yield penstock.Final(part.events if begun else _stream(part.events))
            elif isinstance(part, bytes):
                yield part if begun else _stream(part)
                begun = True
            else:
                yield part
    except Exception as raised:
        yield penstock.Final(form.event(error_response(raised, form).body) if begun else _failed(raised, form))


def _stream(body: bytes) -> penstock.Response:
    return penstock.Response(body, headers={"cache-control": "no-cache"}, content_type="text/event-stream")


def _json(document: dict[str, Any] | bytes) -> penstock.Response:
    body = document if isinstance(document, bytes) else encode(document)
    return penstock.Response(body, content_type="application/json")


def _failed(raised: Exception, form: ErrorForm) -> penstock.Response:
    error = error_response(raised, form)
    return penstock.Response(
        encode(error.body),
        status=error.status,
        headers=error.headers,
        content_type="application/json",
        event=form.event(error.body),
    )
