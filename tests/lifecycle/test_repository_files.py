"""Models whose files a client sends with the request to load them: where they may go, and that they go away."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Server
from repositories import MODEL, Caller, Repository
from waiting import until


def code(factor: float) -> str:
    return MODEL.format(factor=factor, before="", build="pass", call="pass", close="pass")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "models")
    repository.put("a", "1", 2)
    repository.put("a", "5", 5)
    return repository


@pytest.fixture
def caller(repository: Repository, temporary: Path) -> Iterator[Caller]:
    options: Any = {"http": "127.0.0.1:0", "grpc": None, "load_files": True, "poll_interval": 0.02}
    with Server(repository=repository.path, model_control="explicit", load_models="a", **options) as server:
        yield Caller(server.http_url)
    until(lambda: not [*temporary.iterdir()], "the files to go")


def test_files_stand_for_all_that_the_repository_has_of_a_model(caller: Caller, temporary: Path) -> None:
    assert caller.states("a") == {"5": "READY"}
    assert caller.load("a", {}, **{"file:2/model.py": code(3)})[0] == 200
    assert caller.factor("a") == 3
    assert caller.states("a") == {"2": "READY"}
    assert len([*temporary.iterdir()]) == 1
    # The next form takes the place of this one, and its files go with its code.
    policy = {"version_policy": {"all": {}}}
    assert caller.load("a", policy, **{"file:2/model.py": code(4), "file:3/model.py": code(6)})[0] == 200
    assert (caller.factor("a", "2"), caller.factor("a", "3")) == (4, 6)
    until(lambda: len([*temporary.iterdir()]) == 1, "the first files to go")
    # Without files it is the repository's again.
    assert caller.load("a")[0] == 200
    assert caller.factor("a") == 5
    until(lambda: not [*temporary.iterdir()], "all files to go")


def test_a_model_that_no_repository_has_comes_and_goes(caller: Caller, temporary: Path) -> None:
    assert caller.load("new", {}, **{"file:1/model.py": code(3)})[0] == 200
    assert caller.factor("new") == 3
    assert caller.unload("new")[0] == 200
    until(lambda: not [*temporary.iterdir()], "the files to go")
    until(lambda: caller.index("new") == [], "the model to be forgotten")


def test_a_load_that_fails_leaves_what_serves_and_no_files(caller: Caller, temporary: Path) -> None:
    status, answer = caller.load("a", {}, **{"file:1/model.py": "raise RuntimeError('/srv/secret')"})
    assert (status, answer["error"]) == (
        500,
        "model 'a' version '1' could not be loaded: RuntimeError (model.py, line 1)",
    )
    assert caller.factor("a") == 5
    until(lambda: not [*temporary.iterdir()], "the files to go")


@pytest.mark.parametrize(
    "name",
    [
        "../model.py",
        "1/../../model.py",
        "1/../model.py",
        "/etc/model.py",
        "1//model.py",
        "1/",
        "1/./model.py",
        "model.py",
        ".1/model.py",
        "1/.hidden",
        "1/a\\..\\b",
        "1/a\x00b",
        "1/C:x",
        "~/model.py",
        "1/a b",
        "1/" + "x" * 129,
        "1/" + "a/" * 8 + "x",
    ],
)
def test_t37_names_of_files_lead_nowhere_else(caller: Caller, temporary: Path, name: str) -> None:
    status, answer = caller.load("a", {}, **{"file:1/model.py": code(3), f"file:{name}": "x"})
    assert status == 400
    assert "is not 'file:<version>/<file>', whose parts begin with a letter" in answer["error"]
    assert answer["error"].isprintable()
    assert [*temporary.iterdir()] == []
    assert caller.factor("a") == 5


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"file:1/model.py": "", "file:1/model.py/x": ""},
            "load parameter 'file:1/model.py/x' is in the way of another one",
        ),
        ({"file:1/other.py": ""}, "the files that were sent make no model 'a', expected 'file:<version>/model.py'"),
        ({f"file:1/f{index}": "" for index in range(1001)}, "1001 load parameters 'file:...' were sent, expected at"),
    ],
)
def test_files_that_make_no_model(caller: Caller, temporary: Path, files: dict[str, str], message: str) -> None:
    status, answer = caller.load("a", {}, **files)
    assert status == 400
    assert answer["error"].startswith(message)
    until(lambda: not [*temporary.iterdir()], "the files to go")


def test_t37_the_models_name_is_one_that_a_folder_can_have(caller: Caller) -> None:
    status, answer = caller.load("..a", {}, **{"file:1/model.py": code(3)})
    assert (status, answer["error"]) == (400, "model '..a': a model whose files are sent cannot have that name")


def test_more_bytes_than_a_body_may_have_are_refused(repository: Repository, temporary: Path) -> None:
    options: Any = {"http": "127.0.0.1:0", "grpc": None, "load_files": True, "max_body_bytes": 10_000}
    with Server(repository=repository.path, model_control="explicit", **options) as server:
        status, _ = Caller(server.http_url).load("a", {}, **{"file:1/model.py": "#" * 10_000})
        assert status == 413
        assert [*temporary.iterdir()] == []
