"""Handlers that fork: a forked server neither serves nor holds its port; other children are unaffected."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from http_by_hand import get, infer
from penstock.client import Client
from serving_process import Serving

MODELS = ("plain", "stream", "awaited", "process", "child", "process_child")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    pid_file = tmp_path_factory.mktemp("pid") / "pid"
    ports = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--pid-file", str(pid_file))
    targets = [f"forking.py:{name}" for name in MODELS]
    with Serving(*targets, *ports, folder=Path(__file__).parent) as server:
        yield server
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0


def response(server: Serving, model: str, x: int) -> int:
    inputs = {"x": np.array([x], np.int32)}
    if model == "stream":
        with Client(server.http) as client:
            (chunk,) = client.stream(model, inputs)
            return int(chunk["y"][0])
    return int(infer(server.http, model, inputs).array("y")[0])


@pytest.mark.fault("forks and returns twice")
@pytest.mark.parametrize("model", ["plain", "stream", "awaited", "process"])
def test_forked_child_that_returns_from_a_handler_exits(server: Serving, model: str) -> None:
    for _ in range(3):
        assert response(server, model, 5) == 1
    assert server.await_stderr(
        f"penstock: model '{model}': a handler forked and returned in the child too, which ends here; end it with "
        "os._exit(), or use subprocess or multiprocessing\n"
    )
    assert get(server.http, "/v2/health/ready").status == 200


@pytest.mark.fault("forks")
def test_multiprocessing_child_inherits_no_listening_socket(server: Serving) -> None:
    assert response(server, "child", 0) == 0


@pytest.mark.fault("forks")
@pytest.mark.parametrize("model", ["child", "process_child"])
def test_signal_to_a_multiprocessing_child_does_not_stop_the_server(server: Serving, model: str) -> None:
    assert response(server, model, 1) == -signal.SIGTERM
    assert get(server.http, "/v2/health/ready").status == 200
