"""Async handlers: what runs at once, in which context, and what becomes of calls that nobody waits for."""

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
    """Each test runs with both."""
    name: str = request.param
    if name == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    return name


X = [Tensor("x", np.float32, [-1])]
Y = [Tensor("y", np.float32, [-1])]


def ask(client: Client, model_name: str, /, **body: Any) -> Any:
    answer = client.post(f"/v2/models/{model_name}/generate", json.dumps(body))
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


class Meeting:
    """Lets async handlers go on when so many of them have come."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.here = 0
        self.most = 0

    async def attend(self) -> None:
        self.here += 1
        self.most = max(self.most, self.here)
        deadline = time.monotonic() + 20
        while self.most < self.size:
            assert time.monotonic() < deadline, f"only {self.most} came"
            await asyncio.sleep(0.001)
        self.here -= 1


def test_calls_run_at_once_on_one_thread() -> None:
    meeting, threads = Meeting(8), set()

    @model
    async def meet(n: int) -> int:
        threads.add(threading.get_ident())
        await meeting.attend()
        return n + 1

    assert (meet.instances, meet.max_concurrency) == (1, 64)
    with Client(meet) as client:
        futures = at_once([lambda n=n: ask(client, "meet", n=n)["output"] for n in range(8)])
        assert [future.result() for future in futures] == list(range(1, 9))
    assert len(threads) == 1


def test_no_more_calls_run_than_max_concurrency_allows() -> None:
    meeting = Meeting(3)

    @model(max_concurrency=3)
    async def meet(n: int) -> int:
        await meeting.attend()
        await asyncio.sleep(0.002)
        return n

    with Client(meet) as client:
        for future in at_once([lambda: ask(client, "meet", n=1)] * 12):
            future.result()
    assert meeting.most == 3


def test_the_loop_is_uvloops_if_that_is_installed(event_loop_library: str) -> None:
    @model
    async def which(n: int) -> str:
        return type(asyncio.get_running_loop()).__module__.partition(".")[0]

    with Client(which) as client:
        assert ask(client, "which", n=1)["output"] == event_loop_library


def test_each_instance_has_its_own_loop() -> None:
    loops, meeting = set(), Meeting(2)

    @model(instances=Threads(2), max_concurrency=1)
    async def meet(n: int) -> int:
        loops.add(id(asyncio.get_running_loop()))
        await meeting.attend()
        return n

    with Client(meet) as client:
        for future in at_once([lambda: ask(client, "meet", n=1)] * 2):
            future.result()
    assert len(loops) == 2


def test_batches_join_rows_and_may_overlap() -> None:
    sizes: list[int] = []
    meeting = Meeting(2)

    @model(inputs=X, outputs=Y, batching=Batching(max_size=4, max_delay=5.0), max_concurrency=2)
    async def double(x: Any) -> Any:
        sizes.append(len(x))
        await meeting.attend()
        return x * 2

    assert double.with_options(max_concurrency=None).max_concurrency == 1
    with Client(double) as client:
        calls = [lambda n=n: client.infer("double", {"x": np.full((1, 2), n, np.float32)}) for n in range(8)]
        for n, future in enumerate(at_once(calls)):
            assert (future.result()["y"] == 2 * n).all()
    assert sizes == [4, 4]


user = contextvars.ContextVar("user", default="nobody")


def test_context_variables_are_kept_within_a_call_and_between_none() -> None:
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
        futures = at_once([lambda name=name: ask(client, "Named", name=name)["output"] for name in "abcd"])
        assert [future.result() for future in futures] == [["the instance", name] for name in "abcd"]


def test_a_class_is_built_and_closed_on_its_running_loop() -> None:
    seen: list[Any] = []

    @model
    class Session:
        def __init__(self) -> None:
            self.loop = asyncio.get_running_loop()

        async def __call__(self, n: int) -> bool:
            return asyncio.get_running_loop() is self.loop

        async def close(self) -> None:
            await asyncio.sleep(0)
            seen.append(asyncio.get_running_loop() is self.loop)

    with Client(Session) as client:
        assert ask(client, "Session", n=1)["output"] is True
    assert seen == [True]


def test_errors_are_as_those_of_plain_handlers(caplog: pytest.LogCaptureFixture) -> None:
    @model
    async def picky(n: int) -> int:
        await asyncio.sleep(0)
        if n == 0:
            raise InvalidInput("n must not be 0")
        if n == 1:
            raise asyncio.CancelledError
        return 10 // (n - 2)

    with Client(picky) as client:

        def answer(n: int) -> tuple[int, str]:
            answer = client.post("/v2/models/picky/generate", json.dumps({"n": n}))
            return answer.status, json.loads(answer.body).get("error", "")

        assert answer(0) == (400, "n must not be 0")
        assert answer(1) == (500, "model 'picky' failed: CancelledError")
        assert answer(2) == (500, "model 'picky' failed: ZeroDivisionError")
        assert answer(3)[0] == 200
    assert "10 // (n - 2)" in caplog.text


def test_what_cannot_be_built_says_why() -> None:
    from penstock import LoadError

    @model
    class Broken:
        def __init__(self) -> None:
            raise RuntimeError("no weights")

        async def __call__(self, n: int) -> int:
            return n

    with pytest.raises(LoadError, match="model 'Broken' version '1' could not be loaded: RuntimeError: no weights"):
        Client(Broken).__enter__()


@pytest.mark.parametrize("asked", [0, -1, 1.5, True, "many"])
def test_max_concurrency_is_checked(asked: Any) -> None:
    async def handler(n: int) -> int:
        return n

    with pytest.raises(SignatureError, match=f"max_concurrency must be an integer from 1 to 65536, not {asked!r}"):
        model(handler, max_concurrency=asked)


def test_max_concurrency_is_for_async_handlers() -> None:
    with pytest.raises(SignatureError, match="max_concurrency is for async handlers"):
        model(lambda n: n, name="plain", max_concurrency=2)


def test_a_blocking_call_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    @model
    async def rude(n: int) -> int:
        time.sleep(0.5)  # blocks
        return n

    with caplog.at_level(logging.WARNING), Client(rude) as client:
        ask(client, "rude", n=1)
    [record] = [record for record in caplog.records if record.name == "penstock.rude"]
    said = record.getMessage()
    assert "model 'rude' blocks its event loop" in said
    assert "test_async.py" in said
    assert "in rude: time.sleep(0.5)  # blocks" in said


def test_awaiting_for_long_is_no_blocking(caplog: pytest.LogCaptureFixture) -> None:
    @model
    async def patient(n: int) -> int:
        await asyncio.sleep(0.4)
        return n

    with caplog.at_level(logging.WARNING), Client(patient) as client:
        ask(client, "patient", n=1)
    assert "blocks" not in caplog.text


def test_sequences_keep_their_state_and_are_closed() -> None:
    closed: list[Any] = []

    @model(inputs=X, outputs=Y, batching=Batching(4), sequences=Sequences())
    class Sums:
        async def __call__(self, x: Any, ctx: Context) -> Any:
            for place, request in enumerate(ctx.requests):
                state = request.sequence.state
                await asyncio.sleep(0)
                x[place] += state.get("sum", 0)
                state["sum"] = x[place].copy()
            return x

        def close_sequence(self, sequence: Any) -> None:
            closed.append(sequence.id)

    def step(client: Client, value: float, **parameters: Any) -> Any:
        x = np.array([[value]], np.float32)
        body = {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": x.ravel().tolist()}],
            "parameters": {"sequence_id": 7, **parameters},
        }
        answer = client.post("/v2/models/Sums/infer", json.dumps(body))
        return json.loads(answer.body)["outputs"][0]["data"]

    with Client(Sums) as client:
        assert step(client, 1, sequence_start=True) == [1]
        assert step(client, 2) == [3]
        assert step(client, 3, sequence_end=True) == [6]
        until(lambda: closed == [7])


class Left:
    """A served model, and callers that leave it."""

    def __init__(self, *models: Any) -> None:
        self.server = Server(*models, http="127.0.0.1:0", grpc=None)

    def __enter__(self) -> Left:
        self.server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.__exit__(*error)

    def ask_and_leave(self, path: str, body: dict[str, Any], when: Callable[[], object]) -> None:
        """Sends a request, and closes the connection when the time has come."""
        url = (self.server.http_url or "").removeprefix("http://")
        connection = http.client.HTTPConnection(url, timeout=20)
        connection.request("POST", path, json.dumps(body))
        until(when)
        connection.close()


def test_a_caller_that_leaves_cancels_its_task() -> None:
    entered, cancelled, cleaned = threading.Event(), threading.Event(), threading.Event()

    @model
    async def forever(n: int) -> int:
        entered.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            # The clean-up itself is not cancelled again.
            await asyncio.sleep(0.01)
            cleaned.set()
            raise
        return n

    with Left(forever) as served:
        served.ask_and_leave("/v2/models/forever/generate", {"n": 1}, entered.is_set)
        assert cancelled.wait(20)
        assert cleaned.wait(20)


def test_a_deadline_cancels_its_task_and_the_next_request_is_right() -> None:
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
        answer = client.post("/v2/models/sometimes/generate", json.dumps({"n": 0, "parameters": {"timeout": 50_000}}))
        assert answer.status == 504, answer.body
        assert cancelled.wait(20)
        assert ask(client, "sometimes", n=5)["output"] == 5


def test_streams_run_at_once_and_pause_for_slow_readers() -> None:
    meeting, made = Meeting(4), [0]

    @model
    async def count(n: int) -> AsyncIterator[int]:
        await meeting.attend()
        for i in range(n):
            made[0] += 1
            yield i

    def read(client: Client) -> list[int]:
        answer = client.post("/v2/models/count/generate_stream", json.dumps({"n": 300}))
        return [json.loads(line[6:])["output"] for line in answer.body.decode().split("\n\n")[:-1]]

    with Client(count) as client:
        for future in at_once([lambda: read(client)] * 4):
            assert future.result() == list(range(300))
    assert made == [1200]


def test_a_reader_that_leaves_closes_its_async_generator() -> None:
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

    with Left(endless) as served:
        served.ask_and_leave("/v2/models/endless/generate_stream", {"n": 1}, entered.is_set)
        assert closed.wait(20)


def test_what_is_under_way_when_the_server_stops_is_finished() -> None:
    entered = threading.Event()

    @model
    async def slow(n: int) -> int:
        entered.set()
        await asyncio.sleep(0.2)
        return n

    client = Client(slow)
    with client:
        [future] = at_once([lambda: ask(client, "slow", n=3)])
        assert entered.wait(20)
    assert future.result()["output"] == 3
