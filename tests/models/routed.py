"""Models with routes, which return the request that they received."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from penstock import Batching, Final, NotFound, Request, Response, model
from waiting import Gate


def echo_request(request: Request) -> Response:
    """The request as JSON."""
    document = {
        "route": request.route,
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "parts": request.path_params,
        "id": request.id,
        "protocol": request.protocol,
        "said": request.headers.get("x-said"),
        "body": request.body.decode("latin-1"),
    }
    return Response(json.dumps(document), content_type="application/json")


@model(routes=["POST /score/{customer}", "GET /score/{customer}", "GET /files/{path...}"])
def score(request: Request) -> Response:
    return echo_request(request)


@model(routes=["POST /joined"], batching=Batching(max_size=8))
def joined(requests: list[Request]) -> list[Any]:
    return [NotFound("no such thing") if one.body == b"bad" else one.body * 2 for one in requests]


@model(routes=["GET /later/{who}"])
async def later(request: Request) -> str:
    await asyncio.sleep(0)
    return f"{request.path_params['who']} ü"


ANSWERS: dict[str, Any] = {
    "bytes": b"\x00\x01",
    "text": "ü",
    "empty": Response(),
    "created": Response("made", status=201, headers={"Location": "/made/1"}),
    "cookies": Response(b"", headers=[("set-cookie", "a=1"), ("set-cookie", "b=2")]),
    "typed": Response(b"1,2", content_type="text/csv"),
    "named": Response("1,2", headers={"Content-Type": "text/csv"}),
    "refused": Response('{"detail": "no"}', status=422, content_type="application/json"),
    "gone": Response("nothing", status=204),
    "tensors": Response(outputs={"y": [1.5, 2.5]}, status=202, headers={"x-own": "1", "content-type": "text/plain"}),
    "dict": {"y": [1, 2]},
    "long": Response("long " * 1000),
    "packed": Response(b"x" * 5000, headers={"content-encoding": "br"}),
    "number": 7,
}


@model(routes=["GET /answer/{which}", "DELETE /answer/{which}"])
def answers(request: Request) -> Any:
    which = request.path_params.get("which") or request.parameters["which"]
    if which == "error":
        raise NotFound("there is none")
    if which == "defect":
        raise RuntimeError("secret")
    if which == "split":
        return Response("x", headers={"x": "a\r\nset-cookie: b"})
    return ANSWERS[str(which)]


@model(name="pieces", routes=["GET /pieces/{what}"])
def pieces(request: Request) -> Iterator[Any]:
    what = request.path_params["what"]
    if what == "none":
        return
    if what == "refused":
        raise NotFound("no such stream")
    if what == "one":
        yield Final(Response("alone", status=203))
        return
    yield Response("a", status=202, headers={"x-first": "1"}, content_type="text/csv")
    if what == "broken":
        raise NotFound("too late")
    yield ""
    yield b"b"
    yield Response("c", status=500, headers={"x-late": "1"})


def gated(gate: Gate, disconnected: Gate | None = None) -> Any:
    """A model whose handler waits at a gate, and then reports a disconnected client."""

    @model(name="gated", routes=["POST /gated"])
    def handler(request: Request) -> str:
        gate.enter()
        if disconnected is not None and request.cancelled:
            disconnected.enter()
        return "through"

    return handler


MODELS = (score, joined, later, answers, pieces)
