"""Queue bounds: rows, bytes and levels of priority, and the Retry-After of rejections."""

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


class HeldQueue:
    """A server whose first call is held, so that further requests queue."""

    def __init__(self, url: str, gate: Gate, calls: list[list[float]]) -> None:
        self.url, self.gate, self.calls = url, gate, calls
        self.futures: list[Any] = at_once([lambda: self.send(0)])
        gate.await_entered()

    def send(self, *values: float, priority: int = 0) -> Any:
        x = np.array(values, np.float32).reshape(-1, 1)
        return infer(self.url, "m", {"x": x}, parameters={"priority": priority})

    def enqueue(self, *values: float, priority: int = 0) -> None:
        before = metric_at(self.url, "penstock_queue_depth")
        self.futures += at_once([lambda: self.send(*values, priority=priority)])
        until(lambda: metric_at(self.url, "penstock_queue_depth") == before + 1)

    def finish(self) -> list[Any]:
        self.gate.open()
        return [future.result() for future in self.futures]


@contextmanager
def held_queue(queueing: Queueing, *, max_size: int = 1) -> Iterator[HeldQueue]:
    gate, calls = Gate(), list[list[float]]()

    def handle(x: Any) -> Any:
        calls.append(x[:, 0].tolist())
        if len(calls) == 1:
            gate.enter()
        return x

    served = model(handle, name="m", batching=Batching(max_size=max_size), queueing=queueing, **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None) as server:
        queue = HeldQueue(server.http_url, gate, calls)
        try:
            yield queue
        finally:
            gate.open()


@pytest.mark.parametrize(
    ("bound", "maximum", "unit", "unit_size"), [({"max_rows": 4}, 4, "rows", 1), ({"max_bytes": 16}, 16, "bytes", 4)]
)
def test_queued_rows_and_bytes_are_bounded(bound: dict[str, int], maximum: int, unit: str, unit_size: int) -> None:
    with held_queue(Queueing(**bound), max_size=8) as queue:
        queue.enqueue(1, 2, 3)
        rejected = queue.send(4, 5)
        queued = f"{3 * unit_size} of its maximum of {maximum} {unit} waiting"
        text = f"model 'm' has {queued}, and the request has {2 * unit_size}"
        assert (rejected.status, rejected.error()) == (429, text)
        queue.enqueue(6)
        rejected = queue.send(7)
        assert (rejected.status, rejected.error()) == (429, f"model 'm' has its maximum of {maximum} {unit} waiting")
        assert 1 <= int(rejected.headers["retry-after"]) <= 60
        assert [response.status for response in queue.finish()] == [200] * 3
        # The counts return to zero, so requests are accepted again.
        assert queue.send(8).status == 200


def test_request_larger_than_a_bound_may_queue_alone() -> None:
    with held_queue(Queueing(max_rows=2), max_size=8) as queue:
        queue.enqueue(1, 2, 3, 4)
        assert queue.send(5).status == 429
        assert [response.status for response in queue.finish()] == [200] * 2


def test_level_max_size_is_enforced() -> None:
    with held_queue(Queueing(2, levels={1: Level(max_size=1)})) as queue:
        queue.enqueue(1, priority=1)
        rejected = queue.send(2, priority=1)
        text = "model 'm' has its maximum of 1 requests of priority 1 waiting"
        assert (rejected.status, rejected.error()) == (429, text)
        queue.enqueue(3, priority=2)
        queue.enqueue(4, priority=2)
        assert [response.status for response in queue.finish()] == [200] * 4


def test_level_timeout_is_enforced() -> None:
    with held_queue(Queueing(2, timeout=30, levels={2: Level(timeout=0.05)})) as queue:
        queue.enqueue(1, priority=1)
        expired = queue.send(2, priority=2)
        text = "the request waited in the queue of model 'm' for its limit of 50ms"
        assert (expired.status, expired.error()) == (504, text)
        assert [response.status for response in queue.finish()] == [200] * 2


def test_overdue_requests_go_last_within_their_level() -> None:
    with held_queue(Queueing(2, levels={1: Level(timeout=0.3, on_timeout="delay")})) as queue:
        queue.enqueue(1, priority=1)
        queue.enqueue(2, priority=2)
        threading.Event().wait(0.4)
        queue.enqueue(3, priority=1)
        assert [response.status for response in queue.finish()] == [200] * 4
        # The overdue request precedes those of the lower level.
        assert queue.calls == [[0], [3], [1], [2]]


@pytest.mark.serial
def test_retry_after_estimates_the_drain_time() -> None:
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

        def send() -> Any:
            return infer(url, "m", {"x": np.ones((1, 1), np.float32)})

        # Ten rows a second and forty queued rows: four seconds, more on a busy machine.
        for _ in range(12):
            assert send().status == 200
        futures = at_once([send] * 41)
        gate.await_entered()
        until(lambda: metric_at(url, "penstock_queue_depth") == 40)
        rejected = send()
        assert rejected.status == 429
        assert 3 <= int(rejected.headers["retry-after"]) <= 20
        pause.set()
        gate.open()
        assert {future.result().status for future in futures} == {200}
