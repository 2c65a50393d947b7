"""Code blocks of docs/client.md run as documented."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from inspect import CO_COROUTINE
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import AsyncClient, Batching, Client, Context, Sequences, Server, Tensor, model

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "client.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
UNREACHABLE = "models.example"
"""Host of the only block whose servers do not exist."""


@model(inputs=[Tensor("x", np.float32, [16])], outputs=[Tensor("y", np.float32, [16])], batching=Batching(max_size=32))
def double(x: Any) -> Any:
    return x * 2


@model
def complete(text_input: str) -> Iterator[str]:
    yield from text_input


@model(inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("total", np.float32, [1])], sequences=Sequences())
def running_total(x: Any, ctx: Context) -> Any:
    assert ctx.sequence is not None
    state = ctx.sequence.state
    state["total"] = state.get("total", 0) + x
    return state["total"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(double, complete, running_total, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


@pytest.mark.parametrize("block", [block for block in BLOCKS if UNREACHABLE not in block], ids=lambda code: code[:30])
def test_documented_block_runs(server: Server, block: str, capsys: pytest.CaptureFixture[str]) -> None:
    block = block.replace("http://127.0.0.1:8000", server.http_url).replace("127.0.0.1:8001", str(server.grpc_address))
    code = compile(block, str(DOCUMENT), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run() -> None:
        async with AsyncClient(server.http_url) as asynchronous:
            await eval(code, {**names, "asynchronous": asynchronous})

    with Client(server.http_url) as client:
        names = {"__name__": "app", "client": client, "url": server.http_url, "x": np.ones((1, 16), np.float32)}
        names |= {"np": np, "Client": Client}
        if code.co_flags & CO_COROUTINE:
            asyncio.run(run())
        else:
            exec(code, names)
    if "stream(" in block:
        assert capsys.readouterr().out == "Once upon"
    if "sequence(" in block:
        assert names["total"] == 3.0


def test_only_one_block_is_skipped() -> None:
    assert len(BLOCKS) >= 6
    assert len([block for block in BLOCKS if UNREACHABLE in block]) == 1
