"""Handler faults: clients get an error, counters record it, nothing leaks, and the next request succeeds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from http_by_hand import HttpResponse, get, infer, metric_at
from serving_process import Serving
from waiting import at_once, until

from .models import FAULTS
from .settled import settled

NUMBERS = {fault: -float(number) for number, fault in FAULTS.items()}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    folder = Path(__file__).parent
    with Serving("models.py", "--http", "127.0.0.1:0", "--grpc", "off", folder=folder) as server:
        # Lazily started threads and descriptors exist from now on.
        for _ in range(20):
            check_inference(server)
        until(lambda: metric_at(server.http, "penstock_connections") == 1)
        yield server


def inject(server: Serving, fault: str, *, rows: int = 1) -> HttpResponse:
    x = np.full((rows, 2), 3, np.float32)
    x[-1, 0] = NUMBERS[fault]
    return infer(server.http, "faulty", {"x": x})


def check_inference(server: Serving) -> None:
    x = np.array([[1, 2], [3, 4]], np.float32)
    assert infer(server.http, "faulty", {"x": x}).array("y").tolist() == (x * 2).tolist()


def request_count(server: Serving, outcome: str) -> float:
    return metric_at(server.http, "penstock_requests_total", model="faulty", outcome=outcome)


FAILURES = [
    pytest.param("raises", "failed: RuntimeError", marks=pytest.mark.fault("raises")),
    pytest.param("wrong count", "returned", marks=pytest.mark.fault("wrong count")),
    pytest.param("wrong shape", "returned output 'y' with shape", marks=pytest.mark.fault("wrong shape")),
    pytest.param("wrong datatype", "returned an array of", marks=pytest.mark.fault("wrong datatype")),
    pytest.param("endless recursion", "failed: RecursionError", marks=pytest.mark.fault("endless recursion")),
    pytest.param("KeyboardInterrupt", "failed: KeyboardInterrupt", marks=pytest.mark.fault("KeyboardInterrupt")),
    pytest.param("SystemExit", "failed: SystemExit", marks=pytest.mark.fault("SystemExit")),
    pytest.param("device out of memory", "failed: OutOfMemoryError", marks=pytest.mark.fault("device out of memory")),
]


@pytest.mark.parametrize(("fault", "text"), FAILURES)
def test_handler_fault_is_reported_and_counted_and_leaks_nothing(fault: str, text: str, server: Serving) -> None:
    before = request_count(server, "handler")
    with settled(server.http, server.process.pid):
        for _ in range(20):
            response = inject(server, fault)
            assert response.status == 500
            assert response.error().startswith(f"model 'faulty' {text}")
            check_inference(server)
    assert request_count(server, "handler") == before + 20
    assert server.process.poll() is None


@pytest.mark.fault("raises on one row")
def test_row_that_raises_fails_only_its_batch(server: Serving) -> None:
    # One request of several rows, and concurrent ones that may or may not share its batch.
    with settled(server.http, server.process.pid):
        assert inject(server, "raises", rows=3).status == 500
        futures = at_once([lambda: inject(server, "raises")] + [lambda: check_inference(server)] * 3)
        assert futures[0].result().status == 500
        for future in futures[1:]:
            error = future.exception()
            assert error is None or isinstance(error, KeyError), error
        check_inference(server)


@pytest.mark.fault("holds the GIL in C")
def test_held_gil_does_not_delay_responses_without_python(server: Serving) -> None:
    with settled(server.http, server.process.pid):
        (holds,) = at_once([lambda: inject(server, "holds the GIL in C")])
        until(lambda: metric_at(server.http, "penstock_in_flight") == 1)
        started = time.monotonic()
        while not holds.done() and time.monotonic() < started + 0.5:
            began = time.monotonic()
            assert get(server.http, "/v2/health/live").status == 200
            assert get(server.http, "/v2/models/faulty").status == 200
            assert time.monotonic() - began < 0.5
        late = infer(server.http, "faulty", {"x": np.ones((1, 2), np.float32)}, parameters={"timeout": 100_000})
        assert late.status == 504, "a deadline holds while the GIL is held"
        assert not holds.done()
        assert holds.result().array("y").tolist() == [[2 * NUMBERS["holds the GIL in C"], 6]]
        check_inference(server)


@pytest.mark.fault("prints 100 MB")
def test_handler_that_prints_100_mb_is_answered_and_leaks_nothing(server: Serving) -> None:
    with settled(server.http, server.process.pid):
        response = inject(server, "prints 100 MB")
        assert response.array("y").tolist() == [[2 * NUMBERS["prints 100 MB"], 6]]
        check_inference(server)


@pytest.mark.fault("forks")
def test_handler_that_forks_is_answered(server: Serving) -> None:
    with settled(server.http, server.process.pid):
        for _ in range(20):
            assert inject(server, "forks").status == 200
            check_inference(server)


@pytest.mark.fault("threads that outlive it")
def test_thread_that_keeps_writing_to_its_input_affects_no_other_request(server: Serving) -> None:
    with settled(server.http, server.process.pid):
        for _ in range(5):
            response = inject(server, "threads that outlive it")
            assert response.array("y").tolist() == [[2 * NUMBERS["threads that outlive it"], 6]]
        for _ in range(50):
            check_inference(server)
