"""Instances of a model: each is constructed, called and closed on one thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from http_by_hand import infer
from penstock import Batching, LoadError, Server, Tensor, Threads, model
from penstock.testing import Client
from waiting import Gate, at_once

FLOATS: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
X = np.ones(2, np.float32)

EVENTS: list[tuple[str, int, str]] = []
"""Events, with the instance and thread of each."""


@pytest.fixture(autouse=True)
def _clear_events() -> Iterator[None]:
    yield
    EVENTS.clear()


class Recorded:
    """A handler that records its construction, calls and close."""

    def __init__(self) -> None:
        self.record("built")

    def record(self, event: str) -> None:
        EVENTS.append((event, id(self), threading.current_thread().name + str(threading.get_native_id())))

    def __call__(self, x: Any) -> Any:
        self.record("called")
        return x

    def close(self) -> None:
        self.record("closed")


def recorded(event: str) -> list[tuple[int, str]]:
    return [(instance, thread) for name, instance, thread in EVENTS if name == event]


@pytest.mark.parametrize("count", [1, 3])
def test_class_is_constructed_and_closed_once_per_instance_thread(count: int) -> None:
    with Client(model(name="m", instances=Threads(count), **FLOATS)(Recorded)) as client:
        assert len(recorded("built")) == count
        for _ in range(10):
            client.infer("m", {"x": X})
        assert recorded("closed") == []
    assert sorted(recorded("closed")) == sorted(recorded("built"))
    assert set(recorded("called")) <= set(recorded("built"))
    assert len(recorded("called")) == 10
    assert len({thread for _, thread in recorded("built")}) == count
    own_thread = threading.current_thread().name + str(threading.get_native_id())
    assert own_thread not in {thread for _, thread in recorded("built")}


def test_handlers_are_closed_after_the_last_request() -> None:
    with Server(model(name="m", instances=2, **FLOATS)(Recorded), http="127.0.0.1:0", grpc=None) as server:
        for _ in range(5):
            infer(server.http_url, "m", {"x": X})
    assert [event for event, *_ in EVENTS[:2]] == ["built", "built"]
    assert [event for event, *_ in EVENTS[-2:]] == ["closed", "closed"]
    assert len(recorded("called")) == 5


def test_three_threads_run_at_most_three_calls() -> None:
    gate = Gate()

    @model(instances=Threads(3), **FLOATS)
    def m(x: Any) -> Any:
        gate.enter()
        return x

    with Client(m) as client:
        futures = at_once([lambda: client.infer("m", {"x": X})] * 5)
        gate.await_entered(3)
        # All three instances are busy, so a fourth call does not start.
        assert not gate.entered.acquire(timeout=0.1)
        gate.open()
        for future in futures:
            assert future.result()["y"].tolist() == [1, 1]
        gate.await_entered(2)


def test_one_instance_runs_one_call_at_a_time() -> None:
    inside, peak = [0], [0]

    @model(**FLOATS)
    def m(x: Any) -> Any:
        inside[0] += 1
        peak[0] = max(peak[0], inside[0])
        threading.Event().wait(0.002)
        inside[0] -= 1
        return x

    with Client(m) as client:
        for future in at_once([lambda: client.infer("m", {"x": X})] * 20):
            future.result()
    assert peak == [1]


def test_instance_calls_stay_on_one_thread() -> None:
    @model(**FLOATS)
    class m:
        def __init__(self) -> None:
            self.local = threading.local()
            self.local.weight = 3

        def __call__(self, x: Any) -> Any:
            return x * self.local.weight

    with Client(m) as client:
        for future in at_once([lambda: client.infer("m", {"x": X})] * 5):
            assert future.result()["y"].tolist() == [3, 3]


def test_failed_construction_aborts_the_start_and_closes_the_others() -> None:
    class Broken(Recorded):
        def __init__(self) -> None:
            super().__init__()
            if len(recorded("built")) == 2:
                raise OSError("no such weights")

    served = model(name="m", instances=3, **FLOATS)(Broken)
    with pytest.raises(LoadError) as raised, Server(served, http="127.0.0.1:0", grpc=None):
        raise AssertionError("it must not start")
    assert str(raised.value) == "model 'm' version '1' could not be loaded: OSError: no such weights"
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.__traceback__ is not None
    broken = recorded("built")[1]
    assert sorted(recorded("closed")) == sorted(instance for instance in recorded("built") if instance != broken)


def test_failed_close_is_logged_and_the_others_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    class Sticky(Recorded):
        def close(self) -> None:
            super().close()
            raise RuntimeError("will not close")

    with Client(model(name="sticky", **FLOATS)(Sticky), model(name="m", **FLOATS)(Recorded)) as client:
        client.infer("sticky", {"x": X})
    assert len(recorded("closed")) == 2
    assert "will not close" in caplog.text
    assert [(record.name, record.levelno) for record in caplog.records] == [("penstock.sticky", logging.ERROR)]


def test_function_is_shared_by_its_instances() -> None:
    gate, calls = Gate(), []
    shared = object()

    def handler(x: Any) -> Any:
        calls.append((shared, threading.get_native_id()))
        gate.enter()
        return x

    with Client(model(handler, name="m", instances=2, **FLOATS)) as client:
        futures = at_once([lambda: client.infer("m", {"x": X})] * 2)
        gate.await_entered(2)
        gate.open()
        for future in futures:
            future.result()
    assert len({thread for _, thread in calls}) == 2


def test_handler_may_start_threads() -> None:
    @model(batching=Batching(max_size=4), inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
    def m(x: Any) -> Any:
        rows: list[Any] = [None] * len(x)

        def work(index: int) -> None:
            rows[index] = x[index] * 2

        threads = [threading.Thread(target=work, args=(index,)) for index in range(len(x))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return np.stack(rows)

    with Client(m) as client:
        assert client.infer("m", {"x": np.ones((3, 2), np.float32)})["y"].tolist() == [[2, 2]] * 3


def test_instance_continues_after_a_failed_call(caplog: pytest.LogCaptureFixture) -> None:
    @model(**FLOATS)
    class m(Recorded):
        def __call__(self, x: Any) -> Any:
            super().__call__(x)
            if x[0] == 0:
                raise RuntimeError
            return x

    with Client(m) as client:
        for _ in range(3):
            with pytest.raises(Exception, match="model 'm' failed: RuntimeError"):
                client.infer("m", {"x": np.zeros(1, np.float32)})
            assert client.infer("m", {"x": X})["y"].tolist() == [1, 1]
    assert len(recorded("built")) == 1
    assert len(set(recorded("called"))) == 1
