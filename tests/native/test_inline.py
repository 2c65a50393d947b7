"""`Threads(inline=True)`: short batches on the I/O threads."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import Batching, Sequences, Server, Tensor, Threads, model
from penstock.client import Client
from penstock.errors import HandlerError, SignatureError

X = [Tensor("x", np.float32, [1])]
Y = [Tensor("y", np.float32, [1]), Tensor("inline", np.bool_, [1])]


def thread_name() -> str:
    """Name of the calling thread, as the system shows it."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text().strip()


class Doubling:
    """Doubles; 1000 sleeps, 2000 raises. Each output says whether an I/O thread computed it."""

    closed = 0

    def __call__(self, x: Any) -> Any:
        if (x == 1000).any():
            time.sleep(0.02)
        if (x == 2000).any():
            raise ValueError("two thousand")
        on_io_thread = thread_name().startswith("penstock-io")
        return x * 2, np.full(x.shape, on_io_thread)

    def close(self) -> None:
        assert thread_name().startswith("penstock-Double")
        type(self).closed += 1


def doubling(**options: Any) -> Any:
    return model(
        name="Double", inputs=X, outputs=Y, batching=Batching(8), instances=Threads(1, inline=True), **options
    )(Doubling)


def call(client: Client, value: float) -> tuple[float, bool]:
    outputs = client.infer("Double", {"x": np.array([[value]], np.float32)})
    return outputs["y"][0, 0].item(), outputs["inline"][0, 0].item()


def until_inline(client: Client) -> None:
    """Sends short requests until an I/O thread computes one."""
    assert any(call(client, 1)[1] for _ in range(2000)), "no I/O thread computed a batch"


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with Server(doubling(), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        url = server.http_url if request.param == "http" else f"grpc://{server.grpc_address}"
        with Client(url) as client:
            yield client


def test_first_batches_run_on_the_instance_thread_and_later_ones_inline(client: Client) -> None:
    assert call(client, 3) == (6, False)
    until_inline(client)


def test_slow_batch_moves_the_model_back_to_its_thread(client: Client) -> None:
    until_inline(client)
    assert call(client, 1000)[0] == 2000
    assert call(client, 4) == (8, False)
    until_inline(client)


def test_exception_inline_fails_its_request_only(client: Client) -> None:
    until_inline(client)
    with pytest.raises(HandlerError, match="model 'Double' failed: ValueError"):
        call(client, 2000)
    assert call(client, 5)[0] == 10


def test_each_of_many_clients_gets_its_own_response(client: Client) -> None:
    def calls(first: int) -> list[float]:
        return [call(client, first * 50 + index)[0] for index in range(50)]

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(calls, range(8)))
    assert results == [[2 * (first * 50 + index) for index in range(50)] for first in range(8)]


def test_handler_is_closed_once_on_its_own_thread() -> None:
    Doubling.closed = 0
    with Server(doubling(), http="127.0.0.1:0", grpc=None) as server, Client(server.http_url) as client:
        until_inline(client)
    assert Doubling.closed == 1


def test_server_that_is_not_stopped_ends_with_its_last_reference() -> None:
    server = Server(doubling(), http="127.0.0.1:0", grpc=None)
    server.start()
    with Client(server.http_url) as client:
        until_inline(client)
    address = server.http_url.removeprefix("http://").split(":")
    # An I/O thread needs the interpreter to end, which this thread holds while it frees the server.
    del server
    gc.collect()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((address[0], int(address[1])), timeout=10)


def test_max_delay_is_kept() -> None:
    delayed = model(
        name="Double",
        inputs=X,
        outputs=Y,
        batching=Batching(8, max_delay=0.05),
        instances=Threads(1, inline=True),
    )(Doubling)
    with Server(delayed, http="127.0.0.1:0", grpc=None) as server, Client(server.http_url) as client:
        start = time.monotonic()
        assert [call(client, value)[0] for value in range(20)] == [2 * value for value in range(20)]
        assert time.monotonic() - start > 20 * 0.04


async def awaiting(x: Any) -> Any:
    return x, x > 0


def streaming(x: Any) -> Iterator[Any]:
    yield x, x > 0


async def streaming_async(x: Any) -> AsyncIterator[Any]:
    yield x, x > 0


@pytest.mark.parametrize(
    ("handler", "options", "kind"),
    [
        (awaiting, {}, "an async handler"),
        (streaming, {"streams": True}, "a handler that streams"),
        (streaming_async, {"streams": True}, "an async handler"),
        (Doubling, {"sequences": Sequences(), "batching": Batching(8)}, "sequences"),
    ],
)
def test_handlers_that_cannot_run_inline_are_refused(handler: Any, options: dict[str, Any], kind: str) -> None:
    with pytest.raises(SignatureError, match=rf"Threads\(inline=True\) is for plain handlers; .* with {kind}$"):
        model(name="m", inputs=X, outputs=Y, instances=Threads(1, inline=True), **options)(handler)


def test_inline_has_one_instance() -> None:
    with pytest.raises(ValueError, match=r"Threads\(inline=True\) has one instance, not 2"):
        Threads(2, inline=True)
