"""Upgrades under load: REST on kept connections, gRPC, and streams. No request fails.

`UPGRADES` is their number, 2 by default.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from serving_process import Serving

APP = """
import time
from collections.abc import Iterator
from penstock import model

@model
def same(x: int) -> int:
    return x

@model
def counted(x: int) -> Iterator[int]:
    for number in range(x):
        time.sleep(0.005)
        yield number
"""

UPGRADES = int(os.environ.get("UPGRADES", "2"))
CONNECTIONS, CHUNKS = 4, 40
PATIENCE = 120.0


@dataclass
class Load:
    """Requests that are sent one after the other by each of several clients, until `ends` is set."""

    http: str
    grpc: str
    ends: asyncio.Event = field(default_factory=asyncio.Event)
    answered: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    async def repeat(self, kind: str, send: Callable[[int], Awaitable[bool]]) -> None:
        """Sends requests of a kind."""
        number = 0
        while not self.ends.is_set():
            number += 1
            try:
                if not await asyncio.wait_for(send(number), PATIENCE):
                    self.failed.append(f"{kind}: a wrong response")
            except Exception as error:
                self.failed.append(f"{kind}: {type(error).__name__}: {error}")
            self.answered[kind] = self.answered.get(kind, 0) + 1

    async def rest(self) -> None:
        """Requests on a kept connection."""
        connection = KeptConnection(self.http)

        async def send(number: int) -> bool:
            status, body = await connection.post("/models/same", json.dumps({"x": number}))
            return (status, body) == (200, str(number).encode())

        await self.repeat("rest", send)
        connection.close()

    async def unary(self) -> None:
        """Calls on a channel, which opens another connection when the server asks for it.

        The library itself repeats a call that it has not written yet when that happens; without retries it fails.
        """
        # A connection for each channel.
        async with grpc.aio.insecure_channel(self.grpc, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

            async def send(number: int) -> bool:
                contents = pb.InferTensorContents(int64_contents=[number])
                request = pb.ModelInferRequest(model_name="same")
                request.inputs.add(name="x", datatype="INT64", shape=[], contents=contents)
                response = await stub.ModelInfer(request, timeout=PATIENCE)
                return int.from_bytes(response.raw_output_contents[0], "little") == number

            await self.repeat("grpc", send)

    async def streams(self) -> None:
        """Streams of many chunks."""

        async def send(number: int) -> bool:
            connection = KeptConnection(self.http)
            status, body = await connection.post("/v2/models/counted/generate_stream", json.dumps({"x": CHUNKS}))
            connection.close()
            events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
            return (status, [event["output"] for event in events]) == (200, [*range(CHUNKS)])

        await self.repeat("stream", send)


class KeptConnection:
    """A connection of HTTP/1.1 that is used until the server closes it with a response."""

    def __init__(self, url: str) -> None:
        self._address = url.removeprefix("http://").split(":")
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: str) -> tuple[int, bytes]:
        """The status and the body of a response."""
        if self._open is None:
            self._open = await asyncio.open_connection(self._address[0], int(self._address[1]))
        reader, writer = self._open
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        if "content-length" in headers:
            content = await reader.readexactly(int(headers["content-length"]))
        else:
            content = b"".join([chunk async for chunk in chunks(reader)])
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), content

    def close(self) -> None:
        """Closes the connection; the next request opens another one."""
        if self._open is not None:
            self._open[1].close()
            self._open = None


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The chunks of a chunked body."""
    while size := int(await reader.readline(), 16):
        yield await reader.readexactly(size)
        await reader.readline()
    await reader.readline()


async def upgrade(folder: Path) -> str:
    """Upgrades, and returns what the command prints if it fails."""
    command = [sys.executable, "-m", "penstock", "upgrade", "--pid-file", "pid"]
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stderr=asyncio.subprocess.PIPE)
    _, err = await process.communicate()
    return err.decode() if process.returncode else ""


async def upgraded(load: Load, folder: Path) -> list[str]:
    """The failures of upgrades under a load."""
    clients = [load.rest() for _ in range(CONNECTIONS)] + [load.unary() for _ in range(CONNECTIONS)]
    clients += [load.streams(), load.streams()]
    tasks = [asyncio.create_task(client) for client in clients]
    failures = []
    for _ in range(UPGRADES):
        before = dict(load.answered)
        while any(load.answered.get(kind, 0) <= before.get(kind, 0) + 1 for kind in ("rest", "grpc", "stream")):
            await asyncio.sleep(0.01)
        failures.append(await upgrade(folder))
    load.ends.set()
    await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
    return failures


def test_no_request_fails_during_upgrades(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    flags = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--pid-file", "pid", "--drain-timeout", "5s"]
    flags += ["--io-threads", "3"]
    with Serving("app.py", *flags, folder=tmp_path) as server:
        try:
            load = Load(server.http, server.grpc)
            failures = asyncio.run(upgraded(load, tmp_path))
            assert failures == [""] * UPGRADES
            assert load.failed == [], f"{len(load.failed)} of {load.answered}"
            assert server.process.wait(60) == 0
            print(f"{UPGRADES} upgrades: {load.answered}")
        finally:
            with suppress(OSError, ValueError):
                os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
