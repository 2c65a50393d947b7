"""Server of native models, for the client tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from penstock import Batching, Context, Server, Tensor, Unavailable, model
from waiting import PATIENCE

F = np.float32
RELEASE = threading.Event()
"""Releases `held`, and the second response of `halting`."""
CLIENT_LEFT = threading.Event()
"""Set when a client of `halting` has left."""


def _tensors(names: str, datatype: Any = F) -> list[Tensor]:
    return [Tensor(name, datatype, [-1]) for name in names.split()]


@model(inputs=_tensors("a b"), outputs=_tensors("sum difference"), batching=Batching(8))
def add(a: Any, b: Any) -> Any:
    return a + b, a - b


@model(inputs=_tensors("x", bytes), outputs=_tensors("y", bytes), batching=Batching(8))
def text(x: Any) -> Any:
    return x


@model(inputs=_tensors("x"), outputs=_tensors("y"))
def plain(x: Any) -> Any:
    return x + 1


@model(inputs=_tensors("x"), outputs=_tensors("y"), batching=Batching(8))
def broken(x: Any) -> Any:
    raise Unavailable("it went wrong")


@model(inputs=_tensors("x"), outputs=_tensors("y"), batching=Batching(8))
def held(x: Any) -> Any:
    assert RELEASE.wait(PATIENCE)
    return x


@model(inputs=_tensors("x"), outputs=_tensors("seen_by_model", bytes), batching=Batching(1))
def listening(x: Any, ctx: Context) -> Any:
    headers = {name: value for name, value in ctx.headers.items() if name.startswith("header")}
    seen_by_model = {**ctx.parameters, **headers, "id": ctx.request_id}
    return np.array([[json.dumps(seen_by_model, sort_keys=True).encode()]], object)


@model(name="counting", inputs=_tensors("n", np.int32), outputs=_tensors("i", np.int32), batching=Batching(1))
def counting(n: Any) -> Iterator[Any]:
    for number in range(n.flat[0]):
        yield np.full((1, 1), number, np.int32)


@model(inputs=_tensors("n", np.int32), outputs=_tensors("i", np.int32), batching=Batching(1))
def halting(n: Any, ctx: Context) -> Iterator[Any]:
    yield np.zeros((1, 1), np.int32)
    while not RELEASE.wait(0.01):
        if ctx.cancelled:
            CLIENT_LEFT.set()
            return
    yield np.ones((1, 1), np.int32)


@model(inputs=_tensors("n", np.int32), outputs=_tensors("i", np.int32), batching=Batching(1))
def breaking(n: Any) -> Iterator[Any]:
    yield np.zeros((1, 1), np.int32)
    raise Unavailable("midway")


MODELS = (add, text, plain, broken, held, listening, counting, halting, breaking)


class Urls(NamedTuple):
    """Addresses of a server."""

    http: str
    grpc: str


@contextmanager
def serving(*models: Any, **options: Any) -> Iterator[Urls]:
    """Runs a server of models, by default all of these, in Triton's dialect."""
    options.setdefault("dialect", "triton")
    with Server(*(models or MODELS), http="127.0.0.1:0", grpc="127.0.0.1:0", **options) as server:
        yield Urls(server.http_url, f"grpc://{server.grpc_address}")
