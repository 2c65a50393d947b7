"""Streams of the client, blocking and async."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from native_models import STARTED, STOPPED
from penstock import AsyncClient, Client, HandlerError, NotFound, PenstockError, Timeout
from waiting import until


def test_chunks_arrive_one_by_one(client: Client) -> None:
    chunks = list(client.stream("count", n=5))
    assert [chunk.y.item() for chunk in chunks] == [0, 1, 2, 3, 4]
    assert chunks[0].model == "count"
    assert [chunk.text for chunk in client.stream("words", text="a bc d")] == ["a", "bc", "d"]


def test_stream_may_be_empty(client: Client) -> None:
    assert list(client.stream("count", n=0)) == []


def test_unary_model_streams_one_chunk(client: Client) -> None:
    assert [chunk.y.tolist() for chunk in client.stream("double", x=[1, 2, 3])] == [[[2, 4, 6]]]


def test_error_before_the_first_chunk_is_raised(client: Client) -> None:
    with pytest.raises((NotFound, HandlerError)):
        list(client.stream("nope", x=np.ones(1, np.float32)))


def test_error_after_some_chunks_is_raised_once(client: Client) -> None:
    stream = client.stream("breaks", n=2)
    assert [next(stream).y.item(), next(stream).y.item()] == [0, 1]
    with pytest.raises(PenstockError, match="broke"):
        next(stream)
    with pytest.raises(StopIteration):
        next(stream)
    assert client.infer("double", x=[1, 2, 3]).y.tolist() == [[2, 4, 6]]


def test_closed_stream_stops_the_generator_on_the_server(client: Client) -> None:
    before = STOPPED.value
    with client.stream("endless", n=1) as stream:
        assert next(stream).y.item() == 0
    until(lambda: STOPPED.value > before, "the generator to be closed")
    with pytest.raises(StopIteration):
        next(stream)


def test_timeout_applies_to_each_chunk(url: str) -> None:
    with Client(url, timeout=2) as client, client.stream("stuck", n=1) as stream:
        assert next(stream).y.item() == 0
        with pytest.raises(Timeout):
            next(stream)


def test_async_streams(url: str) -> None:
    async def read(client: AsyncClient, n: int) -> list[int]:
        return [chunk.y.item() async for chunk in client.stream("count", n=n)]

    async def main() -> None:
        async with AsyncClient(url) as client:
            results = await asyncio.gather(*(read(client, n) for n in (0, 1, 100, 5)))
            assert results == [list(range(n)) for n in (0, 1, 100, 5)]
            stream = client.stream("breaks", n=1)
            assert (await anext_of(stream)).y.item() == 0
            with pytest.raises(PenstockError, match="broke"):
                await anext_of(stream)
            with pytest.raises(StopAsyncIteration):
                await anext_of(stream)
            before = STOPPED.value
            async with client.stream("endless", n=1) as endless:
                assert (await anext_of(endless)).y.item() == 0
            while STOPPED.value == before:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert STARTED.value > 0


def anext_of(stream: object) -> object:
    return stream.__anext__()  # type: ignore[attr-defined]


def test_trailers_only_stream_is_empty() -> None:
    """A trailers-only response, as gRPC's C++ servers such as Triton send."""
    empty_stream = grpc.stream_stream_rpc_method_handler(lambda requests, context: iter(()))
    service = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {"ModelStreamInfer": empty_stream})
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with Client(f"grpc://127.0.0.1:{port}") as client:
            assert list(client.stream("m", x=np.ones(1, np.float32))) == []
    finally:
        server.stop(None).wait()
