"""Models of every kind of handler, on threads and in processes: each records a prompt of 7 tokens and 5 completed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np

import penstock
from penstock import Context, Model, Processes, Tensor, Threads, model

FLOATS: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}


def plain(x: Any, ctx: Context) -> Any:
    ctx.record_tokens(prompt=7)
    ctx.record_tokens(completion=np.int64(2))
    ctx.record_tokens(completion=3, finish_reason="stop")
    return x


async def awaited(x: Any, ctx: Context) -> Any:
    ctx.record_tokens(prompt=7, completion=5, finish_reason="stop")
    return x


def yields(x: Any, ctx: Context) -> Iterator[Any]:
    ctx.record_tokens(prompt=7)
    for _ in range(3):
        ctx.record_tokens(completion=1)
        yield x
    ctx.record_tokens(completion=2, finish_reason="stop")


async def awaits(x: Any, ctx: Context) -> AsyncIterator[Any]:
    for _ in range(3):
        yield x
    ctx.record_tokens(prompt=7, completion=5, finish_reason="stop")


def raw(request: penstock.Request, ctx: Context) -> Any:
    ctx.record_tokens(prompt=7, completion=5, finish_reason="stop")
    return penstock.Response(b"done")


def served(name: str, in_process: bool = False) -> Model[..., Any]:
    """The model of a handler above."""
    options: dict[str, Any] = {"routes": ["POST /raw"]} if name == "raw" else FLOATS
    instances = Processes(1) if in_process else Threads(1)
    made: Model[..., Any] = model(name=name, version="2", instances=instances, **options)(globals()[name])
    return made


def path(name: str) -> str:
    """The path of its requests."""
    if name == "raw":
        return "/raw"
    return f"/v2/models/{name}/{'infer_stream' if name in ('yields', 'awaits') else 'infer'}"
