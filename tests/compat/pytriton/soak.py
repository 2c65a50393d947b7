"""Soak test of all five clients: memory, descriptors and threads stay constant.

Run it by hand: `python tests/compat/pytriton/soak.py 600`. A test runs it for some seconds.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from native_server import RELEASE, Urls, serving

from penstock.compat.pytriton.client import (
    AsyncioDecoupledModelClient,
    AsyncioModelClient,
    DecoupledModelClient,
    FuturesModelClient,
    ModelClient,
)
from penstock.compat.pytriton.client.exceptions import PyTritonClientError

A = np.ones((2, 1000), np.float32)
N = np.array([[20]], np.int32)
CALLS = 20


class Usage(NamedTuple):
    """Resources of this process."""

    megabytes: float
    descriptors: int
    threads: int

    @classmethod
    def now(cls) -> Usage:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        return cls(megabytes, len(os.listdir("/proc/self/fd")), threading.active_count())


def synchronous(url: str) -> None:
    with ModelClient(url, "add") as client:
        for _ in range(CALLS):
            client.infer_batch(A, A)
        with ModelClient.from_existing_client(client) as other:
            other.infer_sample(A[0], A[0])
    with ModelClient(url, "broken") as client:
        assert_raises(lambda: client.infer_batch(A))


def futures(url: str) -> None:
    with FuturesModelClient(url, "add", max_workers=16) as client:
        pending = [client.infer_batch(A, A) for _ in range(CALLS * 3)]
        for future in pending[::7]:
            future.cancel()
        for future in pending:
            if not future.cancelled():
                future.result()


def tasks(url: str) -> None:
    async def main() -> None:
        async with AsyncioModelClient(url, "add") as client:
            await asyncio.gather(*(client.infer_batch(A, A) for _ in range(CALLS)))

    asyncio.run(main())


def streams(url: str) -> None:
    with DecoupledModelClient(url, "counting") as client:
        assert len([*client.infer_batch(N)]) == 20
        # The stream is abandoned in the middle.
        next(client.infer_batch(N))
    with DecoupledModelClient(url, "breaking") as client:
        assert_raises(lambda: [*client.infer_batch(N)])


def streams_of_tasks(url: str) -> None:
    async def one(client: AsyncioDecoupledModelClient) -> int:
        return len([chunk async for chunk in client.infer_batch(N)])

    async def main() -> None:
        async with AsyncioDecoupledModelClient(url, "counting") as client:
            assert await asyncio.gather(*(one(client) for _ in range(4))) == [20] * 4

    asyncio.run(main())


def assert_raises(call: Callable[[], Any]) -> None:
    try:
        call()
    except PyTritonClientError:
        return
    raise AssertionError("no PyTritonClientError was raised")


def rounds(urls: Urls, seconds: float, report: Callable[[Usage, int], None]) -> tuple[Usage, Usage]:
    """Uses the clients for a time. Returns the resources after the first rounds and at the end."""
    RELEASE.set()
    count = 0
    first: Usage | None = None
    deadline = time.monotonic() + seconds
    while first is None or time.monotonic() < deadline:
        for use in (synchronous, futures, tasks):
            for url in urls:
                use(url)
        streams(urls.grpc)
        streams_of_tasks(urls.grpc)
        count += 1
        if count == 20:
            first = Usage.now()
        if count % 20 == 0:
            report(Usage.now(), count)
    return first, Usage.now()


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    start = printed = time.monotonic()

    def report(usage: Usage, count: int) -> None:
        nonlocal printed
        if time.monotonic() - printed >= seconds / 40:
            printed = time.monotonic()
            print(f"{printed - start:6.0f} s  round {count:6}  {usage.megabytes:7.1f} MB  "
                  f"{usage.descriptors:4} descriptors  {usage.threads:3} threads", flush=True)  # fmt: skip

    with serving() as urls:
        first, last = rounds(urls, seconds, report)
    print(f"first {first}\nlast  {last}")


if __name__ == "__main__":
    main()
