"""`routes`: OpenAI's paths as a raw-request model."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import penstock
from penstock.errors import InvalidInput, SignatureError
from penstock.openai._errors import OPENAI, ErrorForm, error_response, unknown_model
from penstock.openai._events import End, Part, encode
from penstock.openai._resource import Resource
from penstock.openai._served import Served
from penstock.openai._table import DEFAULT_PREFIX, Table

if TYPE_CHECKING:
    from penstock._core import Context
    from penstock._model.model import Model

__all__ = ["routes"]

CONCURRENCY = 4096
"""Limit of concurrent requests."""


def routes(
    *served: Served | Resource, prefix: str = DEFAULT_PREFIX, name: str = "openai", owned_by: str = "penstock"
) -> Model[..., Any]:
    """Returns a model with the routes of OpenAI's API. The server needs it and the models that it calls.

    The routes are those of the declared models, such as `POST PREFIX/chat/completions`, and the two routes
    `GET PREFIX/models` and `/models/{model}`. Requests share the queues and batches of their models with other clients.

    Args:
        served: The models and their kinds of routes, and `Batches` for them.
        prefix: Prefix of the paths; clients use it as the end of their `base_url`.
        name: Name of the routes' model in the index of models and in metrics.
        owned_by: The member `owned_by` of each model in the list of models.

    Raises:
        SignatureError: no models, or two of the same name at one route.

    Example:
        >>> serve(embed, complete, openai.routes(openai.Embeddings(embed), openai.Completions(complete)))
    """
    for one in served:
        if not isinstance(one, Served | Resource):
            raise SignatureError(f"openai.routes takes Chat, Completions, Embeddings and their like, not {one!r}")
    models = [one for one in served if isinstance(one, Served)]
    table = Table(models, f"/{prefix.strip('/')}".rstrip("/"))
    if not models:
        raise SignatureError(
            "openai.routes: there is nothing to serve; give at least one Chat, Completions or Embeddings"
        )
    resources = _resources([one for one in served if isinstance(one, Resource)], table)
    declared = [
        *(f"POST {path}" for path in table.by_path),
        *resources,
        *(f"GET {table.whole(path)}" for path in ("models", "models/{model...}")),
    ]
    first, example = _example(table)

    class Routes(_Handler):
        def __init__(self) -> None:
            super().__init__(table, resources, owned_by)

    make: Any = penstock.model(
        name=name,
        description="OpenAI's API for the models of this server.",
        routes=[first, *(route for route in declared if route != first)],
        calls=sorted({one.model.name for one in models}),
        max_concurrency=CONCURRENCY,
    )
    made: Model[..., Any] = make(Routes)
    made.route_example = example
    return made


def _example(table: Table) -> tuple[str, str | None]:
    """The route of an example request, and its body."""
    for path, named in table.by_path.items():
        for one, endpoint in named.values():
            if endpoint.takes_json:
                return f"POST {path}", encode({"model": one.name, **one.example}).decode()
    return f"GET {table.whole('models')}", None


def _resources(resources: list[Resource], table: Table) -> dict[str, tuple[Resource, str]]:
    """The resources by whole route, each with the route as it declares it."""
    found: dict[str, tuple[Resource, str]] = {}
    for one in resources:
        for route in one.routes():
            method, path = route.split(" ")
            if (whole := f"{method} {table.whole(path)}") in found:
                raise SignatureError(f"openai.routes: {whole} is declared twice")
            found[whole] = one, route
    return found


class _Handler:
    """Handler of the routes, one for each instance."""

    def __init__(self, table: Table, resources: Mapping[str, tuple[Resource, str]], owned_by: str) -> None:
        self._table, self._owned_by = table, owned_by
        opened = {one: one.open(table) for one in dict.fromkeys(one for one, _ in resources.values())}
        self._open = list(opened.values())
        self._resources = {whole: (opened[one], route) for whole, (one, route) in resources.items()}
        self._started = int(time.time())

    async def close(self) -> None:
        """Closes the resources."""
        for one in self._open:
            await one.close()

    async def __call__(self, request: penstock.Request, ctx: Context) -> AsyncIterator[Any]:
        """Yields the response, in chunks if the request wants a stream."""
        if request.route is None:
            raise InvalidInput(f"model {ctx.model_name!r} answers HTTP requests to OpenAI's paths only")
        route = str(request.route)
        method, path = route.split(" ", 1)
        served = method == "POST" and path in self._table.by_path
        form = self._table.errors(path) if served else OPENAI
        try:
            if served:
                body = self._table.any_endpoint(path).read(request)
                _, endpoint = self._table.find(path, body, ctx.client.may_use)
                given: Any = await endpoint.answer(body, ctx)
            elif route in self._resources:
                resource, declared = self._resources[route]
                given = await resource.answer(declared, request, ctx)
            else:
                given = self._about(request.path_params.get("model"), ctx)
            if isinstance(given, dict | bytes | penstock.Response):
                yield penstock.Final(given if isinstance(given, penstock.Response) else _json(given))
                return
        except Exception as raised:
            yield penstock.Final(_failed(raised, form))
            return
        if not served:
            async with aclosing(given):
                async for chunk in given:
                    yield chunk
            return
        async with aclosing(given):
            # Proxies cut connections that are silent for long: the server may send comments before the first event.
            yield penstock.EventStream()
            async for chunk in _sent(given, form):
                yield chunk

    def _about(self, name: str | None, ctx: Context) -> dict[str, Any]:
        names = self._table.visible(ctx.client.may_use)
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
