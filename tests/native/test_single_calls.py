"""Single async calls: the event loop drives the idle connection without the client's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from misbehaving import GOOD, Misbehaving
from penstock import AsyncClient, Timeout, Unavailable

uvloop = pytest.importorskip("uvloop")
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
ROW = np.ones(1, np.int32)


def run(work: Callable[[], Awaitable[None]], new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    loop = new_loop()
    try:
        loop.run_until_complete(work())
    finally:
        loop.close()


async def infer_row(client: AsyncClient, **options: Any) -> int:
    return int((await client.infer("m", x=ROW, **options)).y[0])


def context_switches_of_the_runtime() -> int:
    """Voluntary context switches of the client's thread."""
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().startswith("penstock-client"):
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
            return int(status["voluntary_ctxt_switches"])
    raise AssertionError("no thread is named penstock-client")


@pytest.mark.parametrize("scheme", ["http", "unix"])
@pytest.mark.parametrize("new_loop", LOOPS)
def test_single_async_calls_do_not_wake_the_client_thread(scheme: str, new_loop: Any, urls: dict[str, str]) -> None:
    async def work() -> None:
        async with AsyncClient(urls[scheme]) as client:
            for _ in range(3):
                await client.infer("upper", text="a")
            before = context_switches_of_the_runtime()
            for _ in range(100):
                assert (await client.infer("upper", text="a")).text == "A"
                assert (await client.request("GET", "/v2/health/live")).ok
            assert context_switches_of_the_runtime() - before < 20

    run(work, new_loop)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_timeouts_cancellation_and_lost_connections_leave_the_loop_usable(new_loop: Any) -> None:
    def respond(number: int) -> bytes | None:
        # The second of three requests on a connection gets no response, or a close.
        if number % 3 == 1:
            if number % 2:
                return None
            server.hung_up.acquire(timeout=0.3)
        return GOOD

    async def work() -> None:
        async with AsyncClient(server.url) as client:
            for index in range(8):
                assert await infer_row(client) == 7
                if index % 2 == 0:
                    with pytest.raises(Unavailable):
                        await infer_row(client)
                elif index % 4 == 1:
                    with pytest.raises(Timeout):
                        await infer_row(client, timeout=0.05)
                else:
                    task = asyncio.ensure_future(infer_row(client))
                    await asyncio.sleep(0.05)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                # A new connection, which may reuse the old file descriptor.
                assert await infer_row(client) == 7

    with Misbehaving(respond) as server:
        run(work, new_loop)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_large_responses_and_concurrent_calls_use_the_client_thread(new_loop: Any, urls: dict[str, str]) -> None:
    numbers = np.arange(1_000_000, dtype=np.float32)

    async def work() -> None:
        async with AsyncClient(urls["http"]) as client:

            async def increments(size: int) -> bool:
                x = numbers[:size]
                return bool(np.array_equal((await client.infer("large", x=x)).y, x + 1))

            for _ in range(3):
                assert await increments(3)
                assert await increments(1_000_000)
                assert await increments(12_000)
                assert all(await asyncio.gather(*(increments(size) for size in (1, 10, 300_000, 2, 5000))))

    run(work, new_loop)
