"""Handlers that go wrong: their callers are told, the counters say so, nothing leaks, and the next request is right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from http_by_hand import Answer, get, infer, metric_at
from serving_process import Serving
from waiting import at_once, until

from .models import FAULTS
from .settled import settled

NUMBERS = {fault: -float(number) for number, fault in FAULTS.items()}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    folder = Path(__file__).parent
    with Serving("models.py", "--http", "127.0.0.1:0", "--grpc", "off", folder=folder) as server:
        # What is started at first use is there from now on.
        for _ in range(20):
            right(server)
        until(lambda: metric_at(server.http, "penstock_connections") == 1)
        yield server


def commit(server: Serving, fault: str, *, rows: int = 1) -> Answer:
    x = np.full((rows, 2), 3, np.float32)
    x[-1, 0] = NUMBERS[fault]
    return infer(server.http, "faulty", {"x": x})


def right(server: Serving) -> None:
    x = np.array([[1, 2], [3, 4]], np.float32)
    assert infer(server.http, "faulty", {"x": x}).array("y").tolist() == (x * 2).tolist()


def counted(server: Serving, outcome: str) -> float:
    return metric_at(server.http, "penstock_requests_total", model="faulty", outcome=outcome)


TOLD = [
    pytest.param("raises", "failed: RuntimeError", marks=pytest.mark.fault("raises")),
    pytest.param("wrong count", "returned", marks=pytest.mark.fault("wrong count")),
    pytest.param("wrong shape", "returned output 'y' with shape", marks=pytest.mark.fault("wrong shape")),
    pytest.param("wrong datatype", "returned an array of", marks=pytest.mark.fault("wrong datatype")),
    pytest.param("endless recursion", "failed: RecursionError", marks=pytest.mark.fault("endless recursion")),
    pytest.param("KeyboardInterrupt", "failed: KeyboardInterrupt", marks=pytest.mark.fault("KeyboardInterrupt")),
    pytest.param("SystemExit", "failed: SystemExit", marks=pytest.mark.fault("SystemExit")),
    pytest.param("device out of memory", "failed: OutOfMemoryError", marks=pytest.mark.fault("device out of memory")),
]


@pytest.mark.parametrize(("fault", "text"), TOLD)
def test_a_fault_is_told_counted_and_over(fault: str, text: str, server: Serving) -> None:
    before = counted(server, "handler")
    with settled(server.http, server.process.pid):
        for _ in range(20):
            answer = commit(server, fault)
            assert answer.status == 500
            assert answer.error().startswith(f"model 'faulty' {text}")
            right(server)
    assert counted(server, "handler") == before + 20
    assert server.process.poll() is None


@pytest.mark.fault("raises on one row")
def test_a_row_that_raises_fails_its_batch_and_no_other(server: Serving) -> None:
    # One request of several rows, and others beside it that may or may not have shared its batch.
    with settled(server.http, server.process.pid):
        assert commit(server, "raises", rows=3).status == 500
        futures = at_once([lambda: commit(server, "raises")] + [lambda: right(server)] * 3)
        assert futures[0].result().status == 500
        for future in futures[1:]:
            error = future.exception()
            assert error is None or isinstance(error, KeyError), error
        right(server)


@pytest.mark.fault("holds the interpreter in C")
def test_a_held_interpreter_stops_no_answer_that_needs_none(server: Serving) -> None:
    with settled(server.http, server.process.pid):
        (holds,) = at_once([lambda: commit(server, "holds the interpreter in C")])
        until(lambda: metric_at(server.http, "penstock_in_flight") == 1)
        asked = time.monotonic()
        while not holds.done() and time.monotonic() < asked + 0.5:
            began = time.monotonic()
            assert get(server.http, "/v2/health/live").status == 200
            assert get(server.http, "/v2/models/faulty").status == 200
            assert time.monotonic() - began < 0.5
        late = infer(server.http, "faulty", {"x": np.ones((1, 2), np.float32)}, parameters={"timeout": 100_000})
        assert late.status == 504, "a deadline is kept while the interpreter is held"
        assert not holds.done()
        assert holds.result().array("y").tolist() == [[2 * NUMBERS["holds the interpreter in C"], 6]]
        right(server)


@pytest.mark.fault("prints 100 MB")
def test_a_handler_that_prints_much_is_right_and_costs_no_memory(server: Serving) -> None:
    with settled(server.http, server.process.pid):
        answer = commit(server, "prints 100 MB")
        assert answer.array("y").tolist() == [[2 * NUMBERS["prints 100 MB"], 6]]
        right(server)


@pytest.mark.fault("forks")
def test_a_handler_that_forks_is_right(server: Serving) -> None:
    with settled(server.http, server.process.pid):
        for _ in range(20):
            assert commit(server, "forks").status == 200
            right(server)


@pytest.mark.fault("threads that outlive it")
def test_a_thread_that_writes_on_into_the_input_spoils_nobody_else(server: Serving) -> None:
    with settled(server.http, server.process.pid):
        for _ in range(5):
            answer = commit(server, "threads that outlive it")
            assert answer.array("y").tolist() == [[2 * NUMBERS["threads that outlive it"], 6]]
        for _ in range(50):
            right(server)
