"""Async handlers: concurrency, event loops, context variables and cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import http.client
import json
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

from penstock import Batching, Context, InvalidInput, Sequences, Server, SignatureError, Tensor, Threads, model
from penstock.testing import Client
from waiting import at_once, until


@pytest.fixture(autouse=True, params=["asyncio", "uvloop"])
def event_loop_library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs each test with asyncio and with uvloop."""
    name: str = request.param
    if name == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    return name


X = [Tensor("x", np.float32, [-1])]
Y = [Tensor("y", np.float32, [-1])]


def generate(client: Client, model_name: str, /, **body: Any) -> Any:
    response = client.post(f"/v2/models/{model_name}/generate", json.dumps(body))
    assert response.status == 200, response.body
    return json.loads(response.body)


class Barrier:
    """Async barrier: calls continue once `size` of them have entered."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.active = 0
        self.peak = 0

    async def enter(self) -> None:
        self.active += 1
        self.peak = max(self.peak, self.active)
        deadline = time.monotonic() + 20
        while self.peak < self.size:
            assert time.monotonic() < deadline, f"only {self.most} entered"
            await asyncio.sleep(0.001)
        self.active -= 1


def test_concurrent_calls_share_one_thread() -> None:
    barrier, threads = Barrier(8), set()

    @model
    async def meet(n: int) -> int:
        threads.add(threading.get_ident())
        await barrier.enter()
        return n + 1

    assert (meet.instances, meet.max_concurrency) == (1, 64)
    with Client(meet) as client:
        futures = at_once([lambda n=n: generate(client, "meet", n=n)["output"] for n in range(8)])
        assert [future.result() for future in futures] == list(range(1, 9))
    assert len(threads) == 1


def test_max_concurrency_limits_concurrent_calls() -> None:
    barrier = Barrier(3)

    @model(max_concurrency=3)
    async def meet(n: int) -> int:
        await barrier.enter()
        await asyncio.sleep(0.002)
        return n

    with Client(meet) as client:
        for future in at_once([lambda: generate(client, "meet", n=1)] * 12):
            future.result()
    assert barrier.peak == 3


def test_uvloop_is_used_if_installed(event_loop_library: str) -> None:
    @model
    async def which(n: int) -> str:
        return type(asyncio.get_running_loop()).__module__.partition(".")[0]

    with Client(which) as client:
        assert generate(client, "which", n=1)["output"] == event_loop_library


def test_each_instance_has_its_own_event_loop() -> None:
    loops, barrier = set(), Barrier(2)

    @model(instances=Threads(2), max_concurrency=1)
    async def meet(n: int) -> int:
        loops.add(id(asyncio.get_running_loop()))
        await barrier.enter()
        return n

    with Client(meet) as client:
        for future in at_once([lambda: generate(client, "meet", n=1)] * 2):
            future.result()
    assert len(loops) == 2


def test_batches_gather_rows_and_may_overlap() -> None:
    sizes: list[int] = []
    barrier = Barrier(2)

    @model(inputs=X, outputs=Y, batching=Batching(max_size=4, max_delay=5.0), max_concurrency=2)
    async def double(x: Any) -> Any:
        sizes.append(len(x))
        await barrier.enter()
        return x * 2

    assert double.with_options(max_concurrency=None).max_concurrency == 1
    with Client(double) as client:
        calls = [lambda n=n: client.infer("double", {"x": np.full((1, 2), n, np.float32)}) for n in range(8)]
        for n, future in enumerate(at_once(calls)):
            assert (future.result()["y"] == 2 * n).all()
    assert sizes == [4, 4]


user = contextvars.ContextVar("user", default="nobody")


def test_context_variables_are_isolated_between_calls() -> None:
    @model
    class Named:
        def __init__(self) -> None:
            user.set("the instance")

        async def __call__(self, name: str) -> list[str]:
            before = user.get()
            user.set(name)
            await asyncio.sleep(0.005)
            return [before, user.get()]

    with Client(Named) as client:
        futures = at_once([lambda name=name: generate(client, "Named", name=name)["output"] for name in "abcd"])
        assert [future.result() for future in futures] == [["the instance", name] for name in "abcd"]


def test_class_is_constructed_and_closed_on_its_running_loop() -> None:
    closed_on_own_loop: list[Any] = []

    @model
    class Session:
        def __init__(self) -> None:
            self.loop = asyncio.get_running_loop()

        async def __call__(self, n: int) -> bool:
            return asyncio.get_running_loop() is self.loop

        async def close(self) -> None:
            await asyncio.sleep(0)
            closed_on_own_loop.append(asyncio.get_running_loop() is self.loop)

    with Client(Session) as client:
        assert generate(client, "Session", n=1)["output"] is True
    assert closed_on_own_loop == [True]


def test_async_errors_match_those_of_sync_handlers(caplog: pytest.LogCaptureFixture) -> None:
    @model
    async def validating(n: int) -> int:
        await asyncio.sleep(0)
        if n == 0:
            raise InvalidInput("n must not be 0")
        if n == 1:
            raise asyncio.CancelledError
        return 10 // (n - 2)

    with Client(validating) as client:

        def send(n: int) -> tuple[int, str]:
            response = client.post("/v2/models/validating/generate", json.dumps({"n": n}))
            return response.status, json.loads(response.body).get("error", "")

        assert send(0) == (400, "n must not be 0")
        assert send(1) == (500, "model 'validating' failed: CancelledError")
        assert send(2) == (500, "model 'validating' failed: ZeroDivisionError")
        assert send(3)[0] == 200
    assert "10 // (n - 2)" in caplog.text


def test_failing_constructor_is_a_load_error() -> None:
    from penstock import LoadError

    @model
    class Broken:
        def __init__(self) -> None:
            raise RuntimeError("no weights")

        async def __call__(self, n: int) -> int:
            return n

    with pytest.raises(LoadError, match="model 'Broken' version '1' could not be loaded: RuntimeError: no weights"):
        Client(Broken).__enter__()


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "many"])
def test_invalid_max_concurrency_is_rejected(value: Any) -> None:
    async def handler(n: int) -> int:
        return n

    with pytest.raises(SignatureError, match=f"max_concurrency must be an integer from 1 to 65536, not {value!r}"):
        model(handler, max_concurrency=value)


def test_max_concurrency_requires_an_async_handler() -> None:
    with pytest.raises(SignatureError, match="max_concurrency is for async handlers"):
        model(lambda n: n, name="plain", max_concurrency=2)


def test_blocking_call_is_logged_with_its_line(caplog: pytest.LogCaptureFixture) -> None:
    @model
    async def blocking(n: int) -> int:
        time.sleep(0.5)  # blocks
        return n

    with caplog.at_level(logging.WARNING), Client(blocking) as client:
        generate(client, "blocking", n=1)
    [record] = [record for record in caplog.records if record.name == "penstock.blocking"]
    message = record.getMessage()
    assert "model 'blocking' blocks its event loop" in message
    assert "test_async.py" in message
    assert "in blocking: time.sleep(0.5)  # blocks" in message


def test_long_await_is_not_reported_as_blocking(caplog: pytest.LogCaptureFixture) -> None:
    @model
    async def awaiting(n: int) -> int:
        await asyncio.sleep(0.4)
        return n

    with caplog.at_level(logging.WARNING), Client(awaiting) as client:
        generate(client, "awaiting", n=1)
    assert "blocks" not in caplog.text


def test_sequences_retain_state_and_are_closed() -> None:
    closed: list[Any] = []

    @model(inputs=X, outputs=Y, batching=Batching(4), sequences=Sequences())
    class Sums:
        async def __call__(self, x: Any, ctx: Context) -> Any:
            for index, request in enumerate(ctx.requests):
                state = request.sequence.state
                await asyncio.sleep(0)
                x[index] += state.get("sum", 0)
                state["sum"] = x[index].copy()
            return x

        def close_sequence(self, sequence: Any) -> None:
            closed.append(sequence.id)

    def step(client: Client, value: float, **parameters: Any) -> Any:
        x = np.array([[value]], np.float32)
        body = {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": x.ravel().tolist()}],
            "parameters": {"sequence_id": 7, **parameters},
        }
        response = client.post("/v2/models/Sums/infer", json.dumps(body))
        return json.loads(response.body)["outputs"][0]["data"]

    with Client(Sums) as client:
        assert step(client, 1, sequence_start=True) == [1]
        assert step(client, 2) == [3]
        assert step(client, 3, sequence_end=True) == [6]
        until(lambda: closed == [7])


class EarlyDisconnect:
    """A server whose clients disconnect early."""

    def __init__(self, *models: Any) -> None:
        self.server = Server(*models, http="127.0.0.1:0", grpc=None)

    def __enter__(self) -> EarlyDisconnect:
        self.server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.__exit__(*error)

    def send_and_disconnect(self, path: str, body: dict[str, Any], when: Callable[[], object]) -> None:
        """Sends a request, and closes the connection once `when()` is true."""
        url = (self.server.http_url or "").removeprefix("http://")
        connection = http.client.HTTPConnection(url, timeout=20)
        connection.request("POST", path, json.dumps(body))
        until(when)
        connection.close()


def test_client_disconnect_cancels_its_task() -> None:
    entered, cancelled, cleaned = threading.Event(), threading.Event(), threading.Event()

    @model
    async def forever(n: int) -> int:
        entered.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            # The clean-up is not cancelled a second time.
            await asyncio.sleep(0.01)
            cleaned.set()
            raise
        return n

    with EarlyDisconnect(forever) as served:
        served.send_and_disconnect("/v2/models/forever/generate", {"n": 1}, entered.is_set)
        assert cancelled.wait(20)
        assert cleaned.wait(20)


def test_deadline_cancels_its_task_and_the_next_request_succeeds() -> None:
    cancelled = threading.Event()

    @model(max_concurrency=1)
    async def sometimes(n: int) -> int:
        if n == 0:
            try:
                await asyncio.sleep(3600)
            finally:
                cancelled.set()
        return n

    with Client(sometimes) as client:
        response = client.post("/v2/models/sometimes/generate", json.dumps({"n": 0, "parameters": {"timeout": 50_000}}))
        assert response.status == 504, response.body
        assert cancelled.wait(20)
        assert generate(client, "sometimes", n=5)["output"] == 5


def test_streams_run_concurrently_and_pause_for_slow_readers() -> None:
    barrier, yielded = Barrier(4), [0]

    @model
    async def count(n: int) -> AsyncIterator[int]:
        await barrier.enter()
        for i in range(n):
            yielded[0] += 1
            yield i

    def read(client: Client) -> list[int]:
        response = client.post("/v2/models/count/generate_stream", json.dumps({"n": 300}))
        return [json.loads(line[6:])["output"] for line in response.body.decode().split("\n\n")[:-1]]

    with Client(count) as client:
        for future in at_once([lambda: read(client)] * 4):
            assert future.result() == list(range(300))
    assert yielded == [1200]


def test_stream_disconnect_closes_its_async_generator() -> None:
    entered, closed = threading.Event(), threading.Event()

    @model
    async def endless(n: int) -> AsyncIterator[int]:
        try:
            while True:
                yield n
                entered.set()
                await asyncio.sleep(0)
        finally:
            closed.set()

    with EarlyDisconnect(endless) as served:
        served.send_and_disconnect("/v2/models/endless/generate_stream", {"n": 1}, entered.is_set)
        assert closed.wait(20)


def test_active_calls_finish_before_the_server_stops() -> None:
    entered = threading.Event()

    @model
    async def slow(n: int) -> int:
        entered.set()
        await asyncio.sleep(0.2)
        return n

    client = Client(slow)
    with client:
        [future] = at_once([lambda: generate(client, "slow", n=3)])
        assert entered.wait(20)
    assert future.result()["output"] == 3
