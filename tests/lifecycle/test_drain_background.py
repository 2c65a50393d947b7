"""Peer calls that a model makes after its response, finished by a drain."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from penstock import Context, Model, Server, Tensor
from penstock.client import Client


def test_drain_waits_for_peer_calls_made_after_the_response() -> None:
    done: list[float] = []
    tasks = []

    def slow(x: np.ndarray) -> np.ndarray:
        time.sleep(0.5)
        return x * 2

    class Front:
        async def __call__(self, x: np.ndarray, ctx: Context) -> np.ndarray:
            begun = asyncio.Event()

            async def later() -> None:
                call = asyncio.ensure_future(ctx.models["slow"].aio(x=x))
                await asyncio.sleep(0)
                begun.set()
                done.append(float((await call)[0]))

            tasks.append(asyncio.create_task(later()))
            await begun.wait()
            return x

        async def close(self) -> None:
            await asyncio.wait(tasks, timeout=4)

    ones = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
    server = Server(
        Model(Front, name="front", **ones), Model(slow, name="slow", **ones), http="127.0.0.1:0", grpc=None
    ).start()
    with Client(server.http_url) as client:
        assert client.infer("front", {"x": np.array([3], np.float32)})["y"][0] == 3
    assert server.stop() == []
    assert done == [6.0]
