"""Calls that are the only one of their event loop, which carries them on itself through an idle connection."""

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


async def asked(client: AsyncClient, **options: Any) -> int:
    return int((await client.infer("m", x=ROW, **options)).y[0])


def turns_of_the_runtime() -> int:
    """How often the client's thread has waited."""
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().startswith("penstock-client"):
            found = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
            return int(found["voluntary_ctxt_switches"])
    raise AssertionError("there is no such thread")


@pytest.mark.parametrize("scheme", ["http", "unix"])
@pytest.mark.parametrize("new_loop", LOOPS)
def test_they_wake_no_other_thread(scheme: str, new_loop: Any, urls: dict[str, str]) -> None:
    async def work() -> None:
        async with AsyncClient(urls[scheme]) as client:
            for _ in range(3):
                await client.infer("upper", text="a")
            before = turns_of_the_runtime()
            for _ in range(100):
                assert (await client.infer("upper", text="a")).text == "A"
                assert (await client.request("GET", "/v2/health/live")).ok
            assert turns_of_the_runtime() - before < 20

    run(work, new_loop)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_deadlines_cancelling_and_losses_leave_the_loop_as_it_was(new_loop: Any) -> None:
    def answer(number: int) -> bytes | None:
        # Of three requests on a connection the second is answered never, or by its end.
        if number % 3 == 1:
            if number % 2:
                return None
            server.hung_up.acquire(timeout=0.3)
        return GOOD

    async def work() -> None:
        async with AsyncClient(server.url) as client:
            for turn in range(8):
                assert await asked(client) == 7
                if turn % 2 == 0:
                    with pytest.raises(Unavailable):
                        await asked(client)
                elif turn % 4 == 1:
                    with pytest.raises(Timeout):
                        await asked(client, timeout=0.05)
                else:
                    task = asyncio.ensure_future(asked(client))
                    await asyncio.sleep(0.05)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                # Through a new connection, whose descriptor may well be the old one's.
                assert await asked(client) == 7

    with Misbehaving(answer) as server:
        run(work, new_loop)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_large_answers_and_several_calls_at_once_go_on_elsewhere(new_loop: Any, urls: dict[str, str]) -> None:
    numbers = np.arange(1_000_000, dtype=np.float32)

    async def work() -> None:
        async with AsyncClient(urls["http"]) as client:

            async def counted(size: int) -> bool:
                x = numbers[:size]
                return bool(np.array_equal((await client.infer("large", x=x)).y, x + 1))

            for _ in range(3):
                assert await counted(3)
                assert await counted(1_000_000)
                assert await counted(12_000)
                assert all(await asyncio.gather(*(counted(size) for size in (1, 10, 300_000, 2, 5000))))

    run(work, new_loop)
