"""A model repository of a running server: reloads, polling and unloads, without losing a request."""

from __future__ import annotations

import gc
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import LoadError, Server, StartupError
from repositories import Repository, RepositoryClient
from serving_process import Serving
from waiting import at_once, until


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "models")


@contextmanager
def serving(repository: Repository, control: str = "explicit", **options: Any) -> Iterator[RepositoryClient]:
    options = {"http": "127.0.0.1:0", "grpc": None, "poll_interval": 0.02, **options}
    with Server(repository=repository.path, model_control=control, **options) as server:
        yield RepositoryClient(server.http_url)


def test_control_none_serves_the_models_present_at_start(repository: Repository) -> None:
    repository.put("a", "1", 2)
    repository.put("a", "2", 3)
    repository.put("b", "7", 5)
    (repository.path / "a" / "notes").mkdir()
    (repository.path / ".git").mkdir()
    with serving(repository, "none") as client:
        assert client("GET", "/v2/models")[1] == {"models": ["a", "b"]}
        assert (client.factor("a"), client.factor("b")) == (3, 5)
        assert client.states("a") == {"2": "READY"}
        assert client.factor("a", "1") == "model 'a' has no version '1'"
        status, refusal = client.load("a")
        assert status == 503
        assert refusal["error"] == (
            "loading and unloading models is off, the server was not started with model_control = explicit"
        )
        assert client.unload("a")[0] == 503


def test_poll_follows_the_repository(repository: Repository) -> None:
    repository.put("a", "1", 2)
    with serving(repository, "poll") as client:
        assert client.factor("a") == 2
        # A version is added, changed and removed.
        repository.put("a", "2", 3)
        until(lambda: client.factor("a") == 3, "the added version")
        until(lambda: client.states("a") == {"2": "READY"}, "the old version to end")
        repository.put("a", "2", 4)
        until(lambda: client.factor("a") == 4, "the changed version")
        (repository.path / "a" / "2" / "model.py").unlink()
        until(lambda: client.factor("a") == 2, "the older version to be served again")
        # A model is added and removed.
        repository.put("b", "1", 9)
        until(lambda: client.factor("b") == 9, "the added model")
        (repository.path / "b" / "1" / "model.py").unlink()
        until(lambda: client.factor("b") == "unknown model 'b'", "the model to be gone")
        assert client("GET", "/v2/health/ready")[0] == 200


def test_poll_reloads_when_a_module_of_the_model_changes(repository: Repository) -> None:
    repository.put("a", factor="FACTOR", before="from .own import FACTOR")  # type: ignore[arg-type]
    helper = repository.path / "a" / "1" / "own.py"
    helper.write_text("FACTOR = 2\n")
    with serving(repository, "poll") as client:
        assert client.factor("a") == 2
        # The same size, and perhaps the same second.
        helper.write_text("FACTOR = 3\n")
        until(lambda: client.factor("a") == 3, "the change")


@pytest.mark.fault("new version fails")
def test_poll_keeps_the_old_version_while_the_new_one_is_broken(repository: Repository) -> None:
    repository.put("a", "1", 2)
    with serving(repository, "poll") as client:
        repository.write("a", "1", "def broken(:\n")
        until(lambda: client.reason("a"), "the failure to be reported")
        assert client.reason("a") == "model 'a' version '1' could not be loaded: SyntaxError (model.py, line 1)"
        assert client.states("a") == {"1": "READY"}
        assert client.factor("a") == 2
        repository.write("a", "2", "secret = open('/etc/none/of/this')\n")
        until(lambda: client.states("a") == {"1": "READY", "2": "UNAVAILABLE"}, "the other failure")
        assert client.reason("a", "2") == (
            "model 'a' version '2' could not be loaded: FileNotFoundError (model.py, line 1)"
        )
        assert client.factor("a") == 2
        repository.put("a", "2", 3)
        until(lambda: client.factor("a") == 3, "the repaired version")
        assert client.index("a") == [{"name": "a", "version": "2", "state": "READY"}]


def test_poll_reports_an_invalid_configuration(repository: Repository) -> None:
    repository.put("a")
    with serving(repository, "poll") as client:
        (repository.path / "a" / "config.json").write_text('{"max_batch_size": "many"}')
        until(lambda: client.reason("a"), "the failure to be reported")
        assert client.reason("a") == "config 'max_batch_size' is \"many\", expected an integer of 0 or more"
        (repository.path / "a" / "config.json").write_text('{"max_batch_size": 3}')
        until(lambda: client("GET", "/v2/models/a/config")[1]["max_batch_size"] == 3, "the configuration")


def test_control_explicit_serves_loaded_models(repository: Repository) -> None:
    repository.put("a", "1", 2)
    with serving(repository) as client:
        assert client("GET", "/v2/health/ready")[0] == 200
        assert client.index() == [{"name": "a"}]
        assert client.factor("a") == "model 'a' is not loaded"
        assert client("GET", "/v2/models/a/ready") == (
            503,
            {"name": "a", "ready": False, "error": "model 'a' is not loaded"},
        )
        assert client.load("a") == (200, {"name": "a", "load": True})
        assert client.factor("a") == 2
        # A model added later is found on load.
        repository.put("b", "1", 3)
        assert client.load("b")[0] == 200
        assert client.factor("b") == 3


@pytest.mark.parametrize(("load_models", "models"), [("a", ["a"]), (["a", "b"], ["a", "b"]), ("*", ["a", "b"])])
def test_load_models_are_loaded_at_start(repository: Repository, load_models: Any, models: list[str]) -> None:
    repository.put("a")
    repository.put("b")
    with serving(repository, load_models=load_models) as client:
        assert client("GET", "/v2/models")[1]["models"] == models


def test_unknown_model_in_load_models_aborts_the_start(repository: Repository) -> None:
    with pytest.raises(StartupError, match="load_models: there is no model 'zzz' in a repository"):
        Server(repository=repository.path, model_control="explicit", load_models="zzz").start()


def test_load_failure_aborts_the_start(repository: Repository) -> None:
    repository.write("a", "1", "1 / 0")
    with pytest.raises(LoadError, match=r"model 'a' version '1' in .*/models/a/1 could not be loaded: ZeroDivision"):
        Server(repository=repository.path).start()


@pytest.mark.trap("T14")
def test_t14_loading_later_leaves_the_server_ready(repository: Repository, tmp_path: Path) -> None:
    # Trap T14: a probe must not restart a server because a client loads a model.
    gate = tmp_path / "gate"
    waits = f"import pathlib, time\n        while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.005)"
    repository.put("a", build=waits)
    with serving(repository) as client:
        (loading,) = at_once([lambda: client.load("a")])
        until(lambda: client.states("a") == {"1": "LOADING"}, "the load to begin")
        assert client("GET", "/v2/health/ready")[0] == 200
        assert client("GET", "/v2/models/a/ready") == (
            503,
            {"name": "a", "ready": False, "error": "model 'a' is loading"},
        )
        assert client.factor("a") == "model 'a' is loading"
        gate.touch()
        assert loading.result(timeout=20)[0] == 200
        assert client("GET", "/v2/models/a/ready")[0] == 200


def test_requests_in_flight_finish_on_the_old_version(repository: Repository, tmp_path: Path) -> None:
    entered, gate, closed = tmp_path / "entered", tmp_path / "gate", tmp_path / "closed"
    waits = (
        f"import pathlib, time; pathlib.Path({str(entered)!r}).touch()\n"
        f"        while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.005)"
    )
    repository.put("a", "1", 2, call=waits, close=f"import pathlib; pathlib.Path({str(closed)!r}).touch()")
    with serving(repository, load_models="a") as client:
        running = at_once([lambda: client.factor("a")] * 5)
        until(entered.exists, "the handler to be called")
        repository.put("a", "1", 3)
        assert client.load("a")[0] == 200
        assert client.factor("a") == 3
        assert not closed.exists()
        gate.touch()
        # All of them get the response of the version that was active on arrival.
        assert {one.result(timeout=20) for one in running} <= {2, 3}
        until(closed.exists, "the old version to close")


def test_unload_finishes_requests_in_flight(repository: Repository, tmp_path: Path) -> None:
    entered, gate = tmp_path / "entered", tmp_path / "gate"
    waits = (
        f"import pathlib, time; pathlib.Path({str(entered)!r}).touch()\n"
        f"        while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.005)"
    )
    repository.put("a", "1", 2, call=waits)
    with serving(repository, load_models="a") as client:
        (running,) = at_once([lambda: client.factor("a")])
        until(entered.exists, "the handler to be called")
        assert client.unload("a") == (200, {"name": "a", "unload": True})
        assert client.states("a") == {"1": "UNLOADING"}
        assert 'penstock_ready{model="a",version="1"} 0\n' in client.metrics()
        assert client.factor("a") == "model 'a' is not loaded"
        gate.touch()
        assert running.result(timeout=20) == 2
        until(lambda: client.states("a") == {"1": "UNAVAILABLE"}, "the instances to close")
        assert client.reason("a") == "unloaded"
        assert 'penstock_ready{model="a"' not in client.metrics()
        assert client.unload("a")[0] == 200
        assert client.load("a")[0] == 200
        assert client.factor("a") == 2


def test_no_request_is_lost_in_fifty_reloads(repository: Repository) -> None:
    repository.put("a", "1", 1)
    with serving(repository, load_models="a") as client:
        ends, responses = threading.Event(), []

        def send_requests() -> None:
            factors: list[float | str] = []
            while not ends.is_set():
                factors.append(client.factor("a"))
            responses.append(factors)

        clients = at_once([send_requests] * 4)
        for factor in range(2, 52):
            repository.put("a", "1", factor)
            assert client.load("a", {"max_batch_size": 1 + factor % 8})[0] == 200
            # The swap is complete when the load responds.
            assert client.factor("a") == factor
        ends.set()
        for one in clients:
            one.result(timeout=20)
    assert len(responses) == 4
    for factors in responses:
        assert len(factors) > 50
        refusals = [one for one in factors if not isinstance(one, float)]
        assert not refusals, refusals[:3]
        # Factors never decrease: no request reaches a replaced version.
        assert factors == sorted(factors)  # type: ignore[type-var]


def packages() -> set[int]:
    """Numbers of the imports in `sys.modules`."""
    return {int(name.rpartition("_")[2]) for name in sys.modules if re.fullmatch(r"_penstock_repository_\d+", name)}


def imports_alive() -> set[int]:
    """Numbers of the imports whose code is still alive."""
    gc.collect()
    modules = [one.__module__ for one in gc.get_objects() if isinstance(one, type) and one.__name__ == "Times"]
    return {int(match[1]) for one in modules if (match := re.match(r"_penstock_repository_(\d+)\.", one))}


def test_code_is_reimported_and_the_old_code_collected(repository: Repository) -> None:
    repository.put("a", "1", 2)
    with serving(repository, load_models="a") as client:
        first = max(packages())
        for factor in range(3, 9):
            repository.put("a", "1", factor)
            assert client.load("a")[0] == 200
            assert client.factor("a") == factor

        until(lambda: {one for one in packages() if one >= first} == {first + 6}, "the replaced code to be collected")
        until(lambda: {one for one in imports_alive() if one >= first} == {first + 6}, "the old code to be collected")
        assert client.unload("a")[0] == 200
        until(lambda: max(packages(), default=0) < first, "the last one to be collected")


def test_endless_load_does_not_block_the_stop(repository: Repository) -> None:
    repository.put("a", build="import time\n        time.sleep(1)")
    server = Server(repository=repository.path, model_control="explicit", http="127.0.0.1:0", grpc=None).start()
    client = RepositoryClient(server.http_url)
    (loading,) = at_once([lambda: client.load("a")])
    until(lambda: client.states("a") == {"1": "LOADING"}, "the load to begin")
    start = time.monotonic()
    server.stop(0.0)
    assert time.monotonic() - start < 5
    with pytest.raises((OSError, AssertionError, ValueError)):
        assert loading.result(timeout=20)[0] == 200


def test_command_line_serves_repositories(repository: Repository, tmp_path: Path) -> None:
    repository.put("a", "1", 2)
    other = Repository(tmp_path / "more")
    other.put("b", "1", 3)
    folders = ("--repository", str(repository.path), "--repository", str(other.path))
    address = ("--http", "127.0.0.1:0", "--grpc", "off")
    with Serving(*folders, *address, "--model-control", "explicit", "--load-models", "b") as server:
        client = RepositoryClient(server.http)
        assert client.index() == [{"name": "a"}, {"name": "b", "version": "1", "state": "READY"}]
        assert client.load("a")[0] == 200
        assert f"repository  {other.path} (explicit)" in server.out
    with Serving("double.py", *folders, *address) as server:
        assert RepositoryClient(server.http)("GET", "/v2/models")[1] == {"models": ["a", "b", "double"]}


EXPLAINED = """
from typing import Annotated
import numpy as np
from penstock import Batching, Tensor, model

@model(inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])], batching=Batching(max_size=4))
class Times:
    def __call__(self, x):
        return x * {factor}

    def explain(self, x) -> Annotated[np.ndarray, Tensor("why", np.float32, [1])]:
        return np.full_like(x, {factor})
"""


def test_explainer_is_loaded_and_unloaded_with_its_model(repository: Repository) -> None:
    repository.write("a", "1", EXPLAINED.format(factor=2))
    with serving(repository, load_models="a") as client:
        explain = lambda: client("POST", "/v1/models/a:explain", {"instances": [[1]]})  # noqa: E731
        assert explain() == (200, {"explanations": [[2.0]]})
        repository.write("a", "2", EXPLAINED.format(factor=3))
        assert client.load("a")[0] == 200
        assert explain() == (200, {"explanations": [[3.0]]})
        assert client.index() == [{"name": "a", "version": "2", "state": "READY"}]
        assert client.unload("a")[0] == 200
        assert explain()[0] == 503
        repository.put("a", "3")
        assert client.load("a")[0] == 200
        assert explain()[0] == 501
