"""What may wait: bounds by rows and bytes, and by level of priority; and when a refused caller may come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from http_by_hand import infer, metric_at
from penstock import Batching, Level, Queueing, Server, Tensor, model
from waiting import Gate, at_once, until

ONE: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}


class Line:
    """A server whose first call is held, and requests that queue behind it."""

    def __init__(self, url: str, gate: Gate, calls: list[list[float]]) -> None:
        self.url, self.gate, self.calls = url, gate, calls
        self.futures: list[Any] = at_once([lambda: self.ask(0)])
        gate.await_entered()

    def ask(self, *values: float, priority: int = 0) -> Any:
        x = np.array(values, np.float32).reshape(-1, 1)
        return infer(self.url, "m", {"x": x}, parameters={"priority": priority})

    def queue(self, *values: float, priority: int = 0) -> None:
        before = metric_at(self.url, "penstock_queue_depth")
        self.futures += at_once([lambda: self.ask(*values, priority=priority)])
        until(lambda: metric_at(self.url, "penstock_queue_depth") == before + 1)

    def answers(self) -> list[Any]:
        self.gate.open()
        return [future.result() for future in self.futures]


@contextmanager
def line(queueing: Queueing, *, max_size: int = 1) -> Iterator[Line]:
    gate, calls = Gate(), list[list[float]]()

    def handle(x: Any) -> Any:
        calls.append(x[:, 0].tolist())
        if len(calls) == 1:
            gate.enter()
        return x

    served = model(handle, name="m", batching=Batching(max_size=max_size), queueing=queueing, **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None) as server:
        one = Line(server.http_url, gate, calls)
        try:
            yield one
        finally:
            gate.open()


@pytest.mark.parametrize(
    ("bound", "most", "what", "each"), [({"max_rows": 4}, 4, "rows", 1), ({"max_bytes": 16}, 16, "bytes", 4)]
)
def test_rows_and_bytes_are_bounded(bound: dict[str, int], most: int, what: str, each: int) -> None:
    with line(Queueing(**bound), max_size=8) as waits:
        waits.queue(1, 2, 3)
        refused = waits.ask(4, 5)
        text = f"model 'm' has {3 * each} of its maximum of {most} {what} waiting, and the request has {2 * each}"
        assert (refused.status, refused.error()) == (429, text)
        waits.queue(6)
        refused = waits.ask(7)
        assert (refused.status, refused.error()) == (429, f"model 'm' has its maximum of {most} {what} waiting")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert [answer.status for answer in waits.answers()] == [200] * 3
        # There is room again, and the counts are right: as much as before may wait.
        assert waits.ask(8).status == 200


def test_a_request_that_is_larger_than_a_bound_may_wait_alone() -> None:
    with line(Queueing(max_rows=2), max_size=8) as waits:
        waits.queue(1, 2, 3, 4)
        assert waits.ask(5).status == 429
        assert [answer.status for answer in waits.answers()] == [200] * 2


def test_a_level_has_a_size_of_its_own() -> None:
    with line(Queueing(2, levels={1: Level(max_size=1)})) as waits:
        waits.queue(1, priority=1)
        refused = waits.ask(2, priority=1)
        text = "model 'm' has its maximum of 1 requests of priority 1 waiting"
        assert (refused.status, refused.error()) == (429, text)
        waits.queue(3, priority=2)
        waits.queue(4, priority=2)
        assert [answer.status for answer in waits.answers()] == [200] * 4


def test_a_level_has_a_timeout_of_its_own() -> None:
    with line(Queueing(2, timeout=30, levels={2: Level(timeout=0.05)})) as waits:
        waits.queue(1, priority=1)
        late = waits.ask(2, priority=2)
        text = "the request waited in the queue of model 'm' for its limit of 50ms"
        assert (late.status, late.error()) == (504, text)
        assert [answer.status for answer in waits.answers()] == [200] * 2


def test_who_is_late_goes_behind_those_of_its_level_that_are_not() -> None:
    with line(Queueing(2, levels={1: Level(timeout=0.3, on_timeout="delay")})) as waits:
        waits.queue(1, priority=1)
        waits.queue(2, priority=2)
        threading.Event().wait(0.4)
        waits.queue(3, priority=1)
        assert [answer.status for answer in waits.answers()] == [200] * 4
        # The first is late, and still before those of the lower level.
        assert waits.calls == [[0], [3], [1], [2]]


@pytest.mark.serial
def test_retry_after_is_the_time_that_the_queue_takes_to_drain() -> None:
    pause = threading.Event()
    gate = Gate()
    calls: list[int] = []

    def handle(x: Any) -> Any:
        calls.append(len(x))
        if len(calls) == 13:
            gate.enter()
        pause.wait(0.1)
        return x

    served = model(handle, name="m", batching=Batching(max_size=1), max_queue=40, **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url

        def ask() -> Any:
            return infer(url, "m", {"x": np.ones((1, 1), np.float32)})

        # Ten rows a second, and forty of them wait: four seconds, more on a machine that is busy.
        for _ in range(12):
            assert ask().status == 200
        futures = at_once([ask] * 41)
        gate.await_entered()
        until(lambda: metric_at(url, "penstock_queue_depth") == 40)
        refused = ask()
        assert refused.status == 429
        assert 3 <= int(refused.headers["retry-after"]) <= 20
        pause.set()
        gate.open()
        assert {future.result().status for future in futures} == {200}
