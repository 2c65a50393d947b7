"""Instances of a model: built, called and closed each on a thread of its own."""

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

LIFE: list[tuple[str, int, str]] = []
"""What happened, to which instance, on which thread."""


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    LIFE.clear()


class Living:
    """A handler that tells what happens to it."""

    def __init__(self) -> None:
        self.tell("built")

    def tell(self, what: str) -> None:
        LIFE.append((what, id(self), threading.current_thread().name + str(threading.get_native_id())))

    def __call__(self, x: Any) -> Any:
        self.tell("called")
        return x

    def close(self) -> None:
        self.tell("closed")


def of(what: str) -> list[tuple[int, str]]:
    return [(instance, thread) for happened, instance, thread in LIFE if happened == what]


@pytest.mark.parametrize("count", [1, 3])
def test_a_class_is_built_and_closed_once_per_instance_on_the_instances_thread(count: int) -> None:
    with Client(model(name="m", instances=Threads(count), **FLOATS)(Living)) as client:
        assert len(of("built")) == count
        for _ in range(10):
            client.infer("m", {"x": X})
        assert of("closed") == []
    assert sorted(of("closed")) == sorted(of("built"))
    assert set(of("called")) <= set(of("built"))
    assert len(of("called")) == 10
    assert len({thread for _, thread in of("built")}) == count
    own = threading.current_thread().name + str(threading.get_native_id())
    assert own not in {thread for _, thread in of("built")}


def test_a_server_closes_its_handlers_after_the_last_request() -> None:
    with Server(model(name="m", instances=2, **FLOATS)(Living), http="127.0.0.1:0", grpc=None) as server:
        for _ in range(5):
            infer(server.http_url, "m", {"x": X})
    assert [what for what, *_ in LIFE[:2]] == ["built", "built"]
    assert [what for what, *_ in LIFE[-2:]] == ["closed", "closed"]
    assert len(of("called")) == 5


def test_threads_3_run_three_at_once_and_no_more() -> None:
    gate = Gate()

    @model(instances=Threads(3), **FLOATS)
    def m(x: Any) -> Any:
        gate.enter()
        return x

    with Client(m) as client:
        futures = at_once([lambda: client.infer("m", {"x": X})] * 5)
        gate.await_entered(3)
        # All three are in the handler, so nobody is left to take a fourth.
        assert not gate.entered.acquire(timeout=0.1)
        gate.open()
        for future in futures:
            assert future.result()["y"].tolist() == [1, 1]
        gate.await_entered(2)


def test_one_instance_is_one_call_at_a_time() -> None:
    inside, most = [0], [0]

    @model(**FLOATS)
    def m(x: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.002)
        inside[0] -= 1
        return x

    with Client(m) as client:
        for future in at_once([lambda: client.infer("m", {"x": X})] * 20):
            future.result()
    assert most == [1]


def test_the_same_thread_makes_all_calls_of_an_instance() -> None:
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


def test_an_instance_that_cannot_be_built_ends_the_start_and_the_others() -> None:
    class Broken(Living):
        def __init__(self) -> None:
            super().__init__()
            if len(of("built")) == 2:
                raise OSError("no such weights")

    served = model(name="m", instances=3, **FLOATS)(Broken)
    with pytest.raises(LoadError) as raised, Server(served, http="127.0.0.1:0", grpc=None):
        raise AssertionError("it must not start")
    assert str(raised.value) == "model 'm' version '1' could not be loaded: OSError: no such weights"
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.__traceback__ is not None
    broken = of("built")[1]
    assert sorted(of("closed")) == sorted(one for one in of("built") if one != broken)


def test_a_close_that_fails_is_logged_and_the_others_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    class Sticky(Living):
        def close(self) -> None:
            super().close()
            raise RuntimeError("will not close")

    with Client(model(name="sticky", **FLOATS)(Sticky), model(name="m", **FLOATS)(Living)) as client:
        client.infer("sticky", {"x": X})
    assert len(of("closed")) == 2
    assert "will not close" in caplog.text
    assert [(record.name, record.levelno) for record in caplog.records] == [("penstock.sticky", logging.ERROR)]


def test_a_function_is_shared_by_its_instances() -> None:
    gate, seen = Gate(), []
    shared = object()

    def handler(x: Any) -> Any:
        seen.append((shared, threading.get_native_id()))
        gate.enter()
        return x

    with Client(model(handler, name="m", instances=2, **FLOATS)) as client:
        futures = at_once([lambda: client.infer("m", {"x": X})] * 2)
        gate.await_entered(2)
        gate.open()
        for future in futures:
            future.result()
    assert len({thread for _, thread in seen}) == 2


def test_a_handler_may_start_threads_of_its_own() -> None:
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


def test_an_instance_that_fails_goes_on_serving(caplog: pytest.LogCaptureFixture) -> None:
    @model(**FLOATS)
    class m(Living):
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
    assert len(of("built")) == 1
    assert len(set(of("called"))) == 1
