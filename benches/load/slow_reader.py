"""Gaps between the events of many streams, with and without one client that does not read.

    python -m benches.load.slow_reader --streams 2000 --seconds 20

Each stream is a chat of one token every half second. The client that does not read asks for a stream without pauses.
Both halves run in one server, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benches.load.streams import CHAT, free_port

HERE = Path(__file__).parent
PERIOD = 0.5
"""Seconds between the tokens of a stream."""


def request(tokens: int, pause: float) -> bytes:
    """A chat of so many tokens, with pauses between them."""
    messages = [{"role": "user", "content": json.dumps([tokens, pause])}]
    body = json.dumps({"model": "paced", "messages": messages, "stream": True}).encode()
    return f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def read_gaps(port: int, tokens: int, begin: float) -> list[float]:
    """Reads one stream. Returns the seconds between its events."""
    await asyncio.sleep(begin)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(tokens, PERIOD))
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise SystemExit(f"{head.decode()}{(await reader.read(4096)).decode()}")
    times = []
    while data := await reader.read(65536):
        times.append(time.perf_counter())
        if b"[DONE]" in data:
            break
    writer.close()
    # The first event has the head, and the last one follows at once.
    return [after - before for before, after in itertools.pairwise(times[1:-1])]


async def measure(port: int, streams: int, seconds: float, slow: bool) -> list[float]:
    """The gaps of all streams."""
    writer = None
    if slow:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(request(10**9, 0))
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(1)
    tokens = int(seconds / PERIOD)
    runs = [read_gaps(port, tokens, index / streams * PERIOD * 4) for index in range(streams)]
    gaps = [gap for run in await asyncio.gather(*runs) for gap in run]
    if writer is not None:
        writer.transport.abort()
    return gaps


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    port = free_port()
    command = [sys.executable, str(HERE / "servers/penstock_paced.py"), str(port)]
    server = subprocess.Popen(command)
    found: dict[bool, list[float]] = {False: [], True: []}
    try:
        time.sleep(3)
        for _ in range(options.repeats):
            for slow in found:
                found[slow] += asyncio.run(measure(port, options.streams, options.seconds, slow))
    finally:
        server.terminate()
        server.wait(30)
    print("| client that does not read | gaps | p50 ms | p99 ms |\n|---|--:|--:|--:|")
    for slow, gaps in found.items():
        cuts = statistics.quantiles(gaps, n=100)
        row = f"{len(gaps):,} | {cuts[49] * 1000:.1f} | {cuts[98] * 1000:.1f}"
        print(f"| {'one' if slow else 'none'} | {row} |")


if __name__ == "__main__":
    main()
