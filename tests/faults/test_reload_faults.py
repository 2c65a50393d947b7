"""Reloads during other faults."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from http_by_hand import metric_at
from penstock import Server
from repositories import Repository, RepositoryClient
from waiting import at_once, until

GATED = """
import pathlib, time
import numpy as np
from penstock import Tensor, model

@model(inputs=[Tensor("x", np.float32, [1, 1])], outputs=[Tensor("y", np.float32, [1, 1])], max_queue=3)
def times(x):
    pathlib.Path({entered!r}).touch()
    while not pathlib.Path({gate!r}).exists():
        time.sleep(0.005)
    return x * {factor}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "models")


@contextmanager
def serving(repository: Repository, control: str = "explicit", **options: Any) -> Iterator[RepositoryClient]:
    options = {"http": "127.0.0.1:0", "grpc": None, "poll_interval": 0.02, **options}
    with Server(repository=repository.path, model_control=control, **options) as server:
        yield RepositoryClient(server.http_url)


@pytest.mark.fault("queue is full")
def test_reload_with_a_full_queue_loses_no_request(repository: Repository, tmp_path: Path) -> None:
    gate, entered = tmp_path / "open", tmp_path / "entered"
    repository.write("a", "1", GATED.format(gate=str(gate), entered=str(entered), factor=2))
    with serving(repository, load_models="a") as client:
        url = f"http://{client.address}"
        waiting = at_once([lambda: client.factor("a")])
        until(entered.exists, "the first in the handler")
        waiting += at_once([lambda: client.factor("a")] * 3)
        until(lambda: metric_at(url, "penstock_queue_depth") == 3, "a full queue")
        assert client.factor("a") == "model 'a' has its maximum of 3 requests waiting"
        repository.write("a", "1", GATED.format(gate="/", entered=str(entered), factor=3))
        assert client.load("a")[0] == 200
        # The new model has another queue; requests in the old one finish there.
        assert client.factor("a") == 3
        gate.touch()
        assert [future.result() for future in waiting] == [2] * 4
        assert client.factor("a") == 3
        until(lambda: metric_at(url, "penstock_in_flight") == 0)


@pytest.mark.fault("same version twice")
def test_concurrent_loads_of_one_version_succeed(repository: Repository) -> None:
    repository.put("a", "1", 2, build="import time; time.sleep(0.2)")
    with serving(repository) as client:
        for _ in range(3):
            responses = [future.result() for future in at_once([lambda: client.load("a")] * 4)]
            assert {status for status, _ in responses} <= {200, 409}
            assert 200 in {status for status, _ in responses}
            assert client.factor("a") == 2
        assert client.states("a") == {"1": "READY"}


@pytest.mark.fault("files deleted")
def test_loaded_model_serves_after_its_files_are_deleted(repository: Repository) -> None:
    repository.put("a", "1", 2)
    with serving(repository, load_models="a") as client:
        shutil.rmtree(repository.path / "a")
        assert client.factor("a") == 2
        status, refusal = client.load("a")
        assert status in (400, 404), refusal
        assert str(repository.path) not in refusal["error"]
        assert client.factor("a") == 2
        repository.put("a", "1", 5)
        assert client.load("a")[0] == 200
        assert client.factor("a") == 5


@pytest.mark.fault("files deleted")
def test_deleted_folder_unloads_only_its_model(repository: Repository) -> None:
    repository.put("a", "1", 2)
    repository.put("b", "1", 3)
    with serving(repository, "poll") as client:
        assert (client.factor("a"), client.factor("b")) == (2, 3)
        shutil.rmtree(repository.path / "a")
        until(lambda: isinstance(client.factor("a"), str), "the model to be unloaded")
        assert client.factor("b") == 3
        shutil.rmtree(repository.path)
        repository.path.mkdir()
        repository.put("a", "1", 7)
        until(lambda: client.factor("a") == 7, "the model to be loaded again")
