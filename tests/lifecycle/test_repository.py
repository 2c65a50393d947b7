"""A folder of models while the server runs: loaded anew, polled, unloaded, and no request lost meanwhile."""

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
from repositories import Caller, Repository
from serving_process import Serving
from waiting import at_once, until


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "models")


@contextmanager
def serving(repository: Repository, control: str = "explicit", **options: Any) -> Iterator[Caller]:
    options = {"http": "127.0.0.1:0", "grpc": None, "poll_interval": 0.02, **options}
    with Server(repository=repository.path, model_control=control, **options) as server:
        yield Caller(server.http_url)


def test_none_serves_what_is_there_at_the_start(repository: Repository) -> None:
    repository.put("a", "1", 2)
    repository.put("a", "2", 3)
    repository.put("b", "7", 5)
    (repository.path / "a" / "notes").mkdir()
    (repository.path / ".git").mkdir()
    with serving(repository, "none") as caller:
        assert caller("GET", "/v2/models")[1] == {"models": ["a", "b"]}
        assert (caller.factor("a"), caller.factor("b")) == (3, 5)
        assert caller.states("a") == {"2": "READY"}
        assert caller.factor("a", "1") == "model 'a' has no version '1'"
        status, refusal = caller.load("a")
        assert status == 503
        assert refusal["error"] == (
            "loading and unloading models is off, the server was not started with model_control = explicit"
        )
        assert caller.unload("a")[0] == 503


def test_poll_follows_the_folder(repository: Repository) -> None:
    repository.put("a", "1", 2)
    with serving(repository, "poll") as caller:
        assert caller.factor("a") == 2
        # A version is added, changed, and removed.
        repository.put("a", "2", 3)
        until(lambda: caller.factor("a") == 3, "the added version")
        until(lambda: caller.states("a") == {"2": "READY"}, "the old version to end")
        repository.put("a", "2", 4)
        until(lambda: caller.factor("a") == 4, "the changed version")
        (repository.path / "a" / "2" / "model.py").unlink()
        until(lambda: caller.factor("a") == 2, "the older version to come back")
        # A model is added, and removed.
        repository.put("b", "1", 9)
        until(lambda: caller.factor("b") == 9, "the added model")
        (repository.path / "b" / "1" / "model.py").unlink()
        until(lambda: caller.factor("b") == "unknown model 'b'", "the model to be gone")
        assert caller("GET", "/v2/health/ready")[0] == 200


def test_poll_sees_a_file_beside_the_model(repository: Repository) -> None:
    repository.put("a", factor="FACTOR", before="from .own import FACTOR")  # type: ignore[arg-type]
    own = repository.path / "a" / "1" / "own.py"
    own.write_text("FACTOR = 2\n")
    with serving(repository, "poll") as caller:
        assert caller.factor("a") == 2
        # Of the same size, and perhaps within the same second.
        own.write_text("FACTOR = 3\n")
        until(lambda: caller.factor("a") == 3, "the change")


@pytest.mark.fault("new version fails")
def test_poll_keeps_the_old_version_while_the_new_one_is_broken(repository: Repository) -> None:
    repository.put("a", "1", 2)
    with serving(repository, "poll") as caller:
        repository.write("a", "1", "def broken(:\n")
        until(lambda: caller.reason("a"), "the failure to be told")
        assert caller.reason("a") == "model 'a' version '1' could not be loaded: SyntaxError (model.py, line 1)"
        assert caller.states("a") == {"1": "READY"}
        assert caller.factor("a") == 2
        repository.write("a", "2", "secret = open('/etc/none/of/this')\n")
        until(lambda: caller.states("a") == {"1": "READY", "2": "UNAVAILABLE"}, "the other failure")
        assert caller.reason("a", "2") == (
            "model 'a' version '2' could not be loaded: FileNotFoundError (model.py, line 1)"
        )
        assert caller.factor("a") == 2
        repository.put("a", "2", 3)
        until(lambda: caller.factor("a") == 3, "the repaired version")
        assert caller.index("a") == [{"name": "a", "version": "2", "state": "READY"}]


def test_poll_tells_of_a_configuration_that_is_wrong(repository: Repository) -> None:
    repository.put("a")
    with serving(repository, "poll") as caller:
        (repository.path / "a" / "config.json").write_text('{"max_batch_size": "many"}')
        until(lambda: caller.reason("a"), "the failure to be told")
        assert caller.reason("a") == "config 'max_batch_size' is \"many\", expected an integer of 0 or more"
        (repository.path / "a" / "config.json").write_text('{"max_batch_size": 3}')
        until(lambda: caller("GET", "/v2/models/a/config")[1]["max_batch_size"] == 3, "the configuration")


def test_explicit_serves_what_is_loaded(repository: Repository) -> None:
    repository.put("a", "1", 2)
    with serving(repository) as caller:
        assert caller("GET", "/v2/health/ready")[0] == 200
        assert caller.index() == [{"name": "a"}]
        assert caller.factor("a") == "model 'a' is not loaded"
        assert caller("GET", "/v2/models/a/ready") == (
            503,
            {"name": "a", "ready": False, "error": "model 'a' is not loaded"},
        )
        assert caller.load("a") == (200, {"name": "a", "load": True})
        assert caller.factor("a") == 2
        # What came later is found when it is asked for.
        repository.put("b", "1", 3)
        assert caller.load("b")[0] == 200
        assert caller.factor("b") == 3


@pytest.mark.parametrize(("asked", "models"), [("a", ["a"]), (["a", "b"], ["a", "b"]), ("*", ["a", "b"])])
def test_explicit_loads_at_the_start_what_is_asked_for(repository: Repository, asked: Any, models: list[str]) -> None:
    repository.put("a")
    repository.put("b")
    with serving(repository, load_models=asked) as caller:
        assert caller("GET", "/v2/models")[1]["models"] == models


def test_a_model_to_load_at_the_start_must_be_there(repository: Repository) -> None:
    with pytest.raises(StartupError, match="load_models: there is no model 'zzz' in a repository"):
        Server(repository=repository.path, model_control="explicit", load_models="zzz").start()


def test_a_model_that_cannot_be_loaded_ends_the_start(repository: Repository) -> None:
    repository.write("a", "1", "1 / 0")
    with pytest.raises(LoadError, match=r"model 'a' version '1' in .*/models/a/1 could not be loaded: ZeroDivision"):
        Server(repository=repository.path).start()


@pytest.mark.trap("T14")
def test_t14_loading_later_leaves_the_server_ready(repository: Repository, tmp_path: Path) -> None:
    # Trap T14: a probe must not restart a server because somebody loads a model.
    gate = tmp_path / "gate"
    waits = f"import pathlib, time\n        while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.005)"
    repository.put("a", build=waits)
    with serving(repository) as caller:
        (loading,) = at_once([lambda: caller.load("a")])
        until(lambda: caller.states("a") == {"1": "LOADING"}, "the load to begin")
        assert caller("GET", "/v2/health/ready")[0] == 200
        assert caller("GET", "/v2/models/a/ready") == (
            503,
            {"name": "a", "ready": False, "error": "model 'a' is loading"},
        )
        assert caller.factor("a") == "model 'a' is loading"
        gate.touch()
        assert loading.result(timeout=20)[0] == 200
        assert caller("GET", "/v2/models/a/ready")[0] == 200


def test_what_is_under_way_finishes_on_the_old_version(repository: Repository, tmp_path: Path) -> None:
    entered, gate, closed = tmp_path / "entered", tmp_path / "gate", tmp_path / "closed"
    waits = (
        f"import pathlib, time; pathlib.Path({str(entered)!r}).touch()\n"
        f"        while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.005)"
    )
    repository.put("a", "1", 2, call=waits, close=f"import pathlib; pathlib.Path({str(closed)!r}).touch()")
    with serving(repository, load_models="a") as caller:
        running = at_once([lambda: caller.factor("a")] * 5)
        until(entered.exists, "the handler to be called")
        repository.put("a", "1", 3)
        assert caller.load("a")[0] == 200
        assert caller.factor("a") == 3
        assert not closed.exists()
        gate.touch()
        # Some came before the change, and all of them were answered by what they found.
        assert {one.result(timeout=20) for one in running} <= {2, 3}
        until(closed.exists, "the old version to close")


def test_unloading_finishes_what_is_under_way(repository: Repository, tmp_path: Path) -> None:
    entered, gate = tmp_path / "entered", tmp_path / "gate"
    waits = (
        f"import pathlib, time; pathlib.Path({str(entered)!r}).touch()\n"
        f"        while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.005)"
    )
    repository.put("a", "1", 2, call=waits)
    with serving(repository, load_models="a") as caller:
        (running,) = at_once([lambda: caller.factor("a")])
        until(entered.exists, "the handler to be called")
        assert caller.unload("a") == (200, {"name": "a", "unload": True})
        assert caller.states("a") == {"1": "UNLOADING"}
        assert caller.factor("a") == "model 'a' is not loaded"
        gate.touch()
        assert running.result(timeout=20) == 2
        until(lambda: caller.states("a") == {"1": "UNAVAILABLE"}, "the instances to close")
        assert caller.reason("a") == "unloaded"
        assert caller.unload("a")[0] == 200
        assert caller.load("a")[0] == 200
        assert caller.factor("a") == 2


def test_no_request_is_lost_in_fifty_reloads(repository: Repository) -> None:
    repository.put("a", "1", 1)
    with serving(repository, load_models="a") as caller:
        ends, answers = threading.Event(), []

        def ask() -> None:
            own: list[float | str] = []
            while not ends.is_set():
                own.append(caller.factor("a"))
            answers.append(own)

        callers = at_once([ask] * 4)
        for factor in range(2, 52):
            repository.put("a", "1", factor)
            assert caller.load("a", {"max_batch_size": 1 + factor % 8})[0] == 200
            # The swap is done when its answer comes.
            assert caller.factor("a") == factor
        ends.set()
        for one in callers:
            one.result(timeout=20)
    assert len(answers) == 4
    for own in answers:
        assert len(own) > 50
        assert all(isinstance(one, float) for one in own), [one for one in own if isinstance(one, str)][:3]
        # Nobody is sent back to what was replaced.
        assert own == sorted(own)  # type: ignore[type-var]


def packages() -> set[int]:
    """The numbers of the imports that are in the table of modules."""
    return {int(name.rpartition("_")[2]) for name in sys.modules if re.fullmatch(r"_penstock_repository_\d+", name)}


def imports_alive() -> set[int]:
    """The numbers of the imports whose code cannot be collected."""
    gc.collect()
    modules = [one.__module__ for one in gc.get_objects() if isinstance(one, type) and one.__name__ == "Times"]
    return {int(match[1]) for one in modules if (match := re.match(r"_penstock_repository_(\d+)\.", one))}


def test_code_is_imported_anew_and_the_old_one_is_collected(repository: Repository) -> None:
    repository.put("a", "1", 2)
    with serving(repository, load_models="a") as caller:
        first = max(packages())
        for factor in range(3, 9):
            repository.put("a", "1", factor)
            assert caller.load("a")[0] == 200
            assert caller.factor("a") == factor

        until(lambda: {one for one in packages() if one >= first} == {first + 6}, "what was replaced to be let go")
        until(lambda: {one for one in imports_alive() if one >= first} == {first + 6}, "the old code to be collected")
        assert caller.unload("a")[0] == 200
        until(lambda: max(packages(), default=0) < first, "the last one to be let go")


def test_a_load_that_never_ends_does_not_keep_the_server(repository: Repository) -> None:
    repository.put("a", build="import time\n        time.sleep(1)")
    server = Server(repository=repository.path, model_control="explicit", http="127.0.0.1:0", grpc=None).start()
    caller = Caller(server.http_url)
    (loading,) = at_once([lambda: caller.load("a")])
    until(lambda: caller.states("a") == {"1": "LOADING"}, "the load to begin")
    start = time.monotonic()
    server.stop(0.0)
    assert time.monotonic() - start < 5
    with pytest.raises((OSError, AssertionError, ValueError)):
        assert loading.result(timeout=20)[0] == 200


def test_the_command_line_serves_repositories(repository: Repository, tmp_path: Path) -> None:
    repository.put("a", "1", 2)
    other = Repository(tmp_path / "more")
    other.put("b", "1", 3)
    folders = ("--repository", str(repository.path), "--repository", str(other.path))
    address = ("--http", "127.0.0.1:0", "--grpc", "off")
    with Serving(*folders, *address, "--model-control", "explicit", "--load-models", "b") as server:
        caller = Caller(server.http)
        assert caller.index() == [{"name": "a"}, {"name": "b", "version": "1", "state": "READY"}]
        assert caller.load("a")[0] == 200
        assert f"repository  {other.path} (explicit)" in server.out
    with Serving("double.py", *folders, *address) as server:
        assert Caller(server.http)("GET", "/v2/models")[1] == {"models": ["a", "b", "double"]}


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


def test_an_explainer_comes_and_goes_with_its_model(repository: Repository) -> None:
    repository.write("a", "1", EXPLAINED.format(factor=2))
    with serving(repository, load_models="a") as caller:
        explain = lambda: caller("POST", "/v1/models/a:explain", {"instances": [[1]]})  # noqa: E731
        assert explain() == (200, {"explanations": [[2.0]]})
        repository.write("a", "2", EXPLAINED.format(factor=3))
        assert caller.load("a")[0] == 200
        assert explain() == (200, {"explanations": [[3.0]]})
        assert caller.index() == [{"name": "a", "version": "2", "state": "READY"}]
        assert caller.unload("a")[0] == 200
        assert explain()[0] == 503
        repository.put("a", "3")
        assert caller.load("a")[0] == 200
        assert explain()[0] == 501
