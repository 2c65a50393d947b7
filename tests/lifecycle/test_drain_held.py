"""Signals while a handler holds the GIL: they are handled at once, and the deadline holds."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from http_by_hand import get, infer, is_draining, metric_at
from serving_process import Serving
from waiting import at_once, until

FOREVER = 1000.0
"""Seconds, far more than the timeout of a test."""
LEFT = "penstock: left without waiting for what holds the interpreter"


class Held:
    """The model of models/holding.py, and the folder of the files that its calls create."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def serve(self, *arguments: str, loading: float = 0, up: bool = True) -> Serving:
        environment = {"GATE": str(self.folder), "HOLD_WHILE_LOADING": str(loading)}
        return Serving(
            "holding.py", "--http", "127.0.0.1:0", "--grpc", "off", *arguments, environment=environment, up=up
        )

    def hold(self, server: Serving, seconds: float, count: int = 1) -> list[Any]:
        """Sends requests: the first holds the GIL, the others are queued."""
        before = len(list(self.folder.iterdir()))
        futures = at_once([lambda: infer(server.http, "Holding", {"x": np.array([seconds], np.float32)})] * count)
        until(lambda: len(list(self.folder.iterdir())) > before, "a call that holds the GIL")
        until(lambda: metric_at(server.http, "penstock_in_flight") == count, "all requests in flight")
        return futures


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


def is_ready(server: Serving) -> bool:
    return get(server.http, "/v2/health/ready").status == 200


@pytest.mark.fault("SIGTERM while held")
def test_signal_is_handled_at_once_and_running_requests_finish(held: Held) -> None:
    with held.serve() as server:
        (future,) = held.hold(server, 3)
        assert is_ready(server)
        server.signal(signal.SIGTERM)
        until(lambda: is_draining(server.http), "not to be ready")
        refused = infer(server.http, "Holding", {"x": np.array([0], np.float32)})
        assert (refused.status, refused.error()) == (503, "the server is shutting down")
        assert not future.done(), "the GIL is still held"
        assert future.result().array("y").tolist() == [6]
        assert server.exit_status() == 0
        assert LEFT not in server.err


@pytest.mark.fault("SIGTERM while held")
def test_drain_deadline_holds_while_the_gil_is_held(held: Held) -> None:
    with held.serve("--drain-timeout", "300ms") as server:
        futures = held.hold(server, FOREVER, count=3)
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 3
        assert server.notices == [LEFT, "penstock: cut off: Holding (version 1): 3 requests"]
        # Any of the concurrent requests may be computed first.
        assert any(one.exception() for one in futures)
        errors = {one.result().error() for one in futures if not one.exception()}
        assert errors == {"the server was stopped before the request was answered"}


@pytest.mark.fault("SIGTERM twice", "SIGTERM while held")
def test_second_signal_stops_a_process_whose_gil_is_held(held: Held) -> None:
    with held.serve("--drain-timeout", "10m") as server:
        held.hold(server, FOREVER)
        server.signal(signal.SIGTERM)
        # So soon that Python would merge both into one.
        time.sleep(0.02)
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 3
        assert server.notices == [LEFT, "penstock: cut off: Holding (version 1): 1 requests"]


@pytest.mark.fault("SIGTERM while held")
def test_process_exits_though_the_gil_is_held_after_the_drain(held: Held) -> None:
    with held.serve("--drain-timeout", "300ms") as server:
        (held.folder / "closing").touch()
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
        assert server.err.splitlines()[-1] == LEFT


@pytest.mark.fault("SIGTERM while held")
@pytest.mark.parametrize(("timeout", "signals"), [("300ms", 1), ("10m", 2)])
def test_signal_aborts_a_start_that_holds_the_gil(held: Held, timeout: str, signals: int) -> None:
    with held.serve("--drain-timeout", timeout, loading=FOREVER, up=False) as server:
        until(lambda: list(held.folder.iterdir()), "the model to be built")
        for _ in range(signals):
            server.signal(signal.SIGTERM)
            time.sleep(0.02)
        assert server.exit_status() == 0
        assert server.notices == [LEFT]
        assert server.out == ""
