"""Streams, piece by piece, blocking and for asyncio."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from native_models import STARTED, STOPPED
from penstock import AsyncClient, Client, HandlerError, NotFound, PenstockError, Timeout
from waiting import until


def test_pieces_come_one_by_one(client: Client) -> None:
    pieces = list(client.stream("count", n=5))
    assert [piece.y.item() for piece in pieces] == [0, 1, 2, 3, 4]
    assert pieces[0].model == "count"
    assert [piece.text for piece in client.stream("words", text="a bc d")] == ["a", "bc", "d"]


def test_a_stream_may_be_empty(client: Client) -> None:
    assert list(client.stream("count", n=0)) == []


def test_a_model_that_answers_once_streams_one_piece(client: Client) -> None:
    assert [piece.y.tolist() for piece in client.stream("double", x=[1, 2, 3])] == [[[2, 4, 6]]]


def test_an_error_before_the_first_piece(client: Client) -> None:
    with pytest.raises((NotFound, HandlerError)):
        list(client.stream("nope", x=np.ones(1, np.float32)))


def test_an_error_after_some_pieces(client: Client) -> None:
    stream = client.stream("breaks", n=2)
    assert [next(stream).y.item(), next(stream).y.item()] == [0, 1]
    with pytest.raises(PenstockError, match="broke"):
        next(stream)
    with pytest.raises(StopIteration):
        next(stream)
    assert client.infer("double", x=[1, 2, 3]).y.tolist() == [[2, 4, 6]]


def test_a_stream_that_is_left_ends_on_the_server(client: Client) -> None:
    before = STOPPED.value
    with client.stream("endless", n=1) as stream:
        assert next(stream).y.item() == 0
    until(lambda: STOPPED.value > before, "the generator to be closed")
    with pytest.raises(StopIteration):
        next(stream)


def test_each_piece_has_its_time(url: str) -> None:
    with Client(url, timeout=2) as client, client.stream("stuck", n=1) as stream:
        assert next(stream).y.item() == 0
        with pytest.raises(Timeout):
            next(stream)


def test_streams_for_asyncio(url: str) -> None:
    async def read(client: AsyncClient, n: int) -> list[int]:
        return [piece.y.item() async for piece in client.stream("count", n=n)]

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


def test_an_empty_stream_of_a_server_that_says_so_at_once() -> None:
    """As gRPC's C++ servers, Triton's among them, do: the status is in the head."""
    nothing = grpc.stream_stream_rpc_method_handler(lambda requests, context: iter(()))
    service = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {"ModelStreamInfer": nothing})
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with Client(f"grpc://127.0.0.1:{port}") as client:
            assert list(client.stream("m", x=np.ones(1, np.float32))) == []
    finally:
        server.stop(None).wait()
