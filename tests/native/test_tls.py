"""TLS connections through a proxy that terminates TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import trustme

from penstock import AsyncClient, Client, InvalidInput, Unavailable

X = np.ones((1, 3), np.float32)


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()


@contextlib.contextmanager
def proxy(url: str, context: ssl.SSLContext) -> Iterator[str]:
    """A TLS listener on a thread that forwards to the server; yields its encrypted URL."""
    scheme, address = url.split("://")
    host, port = address.split(":")
    loop = asyncio.new_event_loop()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        pumps = [
            asyncio.ensure_future(pump_task)
            for pump_task in (pump(reader, upstream_writer), pump(upstream_reader, writer))
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump_task in pumps:
                pump_task.cancel()
            upstream_writer.transport.abort()
            writer.transport.abort()

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)

    async def end(server: asyncio.Server) -> None:
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Transports close in later iterations of the loop.
        await asyncio.sleep(0.1)

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(20)
    yield f"{scheme}s://localhost:{server.sockets[0].getsockname()[1]}"
    asyncio.run_coroutine_threadsafe(end(server), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(params=["http", "grpc"])
def secure(request: pytest.FixtureRequest, urls: dict[str, str], authority: trustme.CA) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2" if request.param == "grpc" else "http/1.1"])
    authority.issue_cert("localhost").configure_cert(context)
    with proxy(urls[request.param], context) as url:
        yield url


def test_tls_connection(secure: str, ca_file: Path) -> None:
    with Client(secure, ca_file=ca_file) as client:
        for _ in range(3):
            assert client.infer("double", x=X).y.tolist() == [[2, 2, 2]]
        values = np.random.default_rng(0).random(1_000_000, np.float32)
        np.testing.assert_array_equal(client.infer("large", x=values).y, values + 1)
        assert [chunk.y.item() for chunk in client.stream("count", n=3)] == [0, 1, 2]


def test_async_tls_connection(secure: str, ca_file: Path) -> None:
    async def main() -> None:
        async with AsyncClient(secure, ca_file=ca_file) as client:
            results = await asyncio.gather(*(client.infer("double", x=X * value) for value in range(20)))
            assert [result.y[0, 0] for result in results] == [2 * value for value in range(20)]

    asyncio.run(main())


def test_untrusted_certificate_is_rejected(secure: str, ca_file: Path) -> None:
    for options in ({}, {"ca_file": ca_file, "server_name": "example.org"}):
        with Client(secure, **options) as client, pytest.raises(Unavailable, match="certificate"):  # type: ignore[arg-type]
            client.infer("double", x=X)


def test_invalid_certificate_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(InvalidInput, match="there are no certificates of authorities"):
        Client("https://localhost", ca_file=tmp_path / "bad.pem")
    with pytest.raises(InvalidInput, match=r"missing\.pem' cannot be read as PEM"):
        Client("https://localhost", ca_file=tmp_path / "missing.pem")
    with pytest.raises(InvalidInput, match="a client's certificate needs its key"):
        Client("https://localhost", certificate=tmp_path / "bad.pem")
