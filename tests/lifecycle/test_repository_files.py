"""Models whose files a client sends with the load request: allowed paths, and cleanup."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Server
from repositories import MODEL, Repository, RepositoryClient
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
def client(repository: Repository, temporary: Path) -> Iterator[RepositoryClient]:
    options: Any = {"http": "127.0.0.1:0", "grpc": None, "load_files": True, "poll_interval": 0.02}
    with Server(repository=repository.path, model_control="explicit", load_models="a", **options) as server:
        yield RepositoryClient(server.http_url)
    until(lambda: not [*temporary.iterdir()], "the files to be removed")


def test_sent_files_replace_the_models_repository_files(client: RepositoryClient, temporary: Path) -> None:
    assert client.states("a") == {"5": "READY"}
    assert client.load("a", {}, **{"file:2/model.py": code(3)})[0] == 200
    assert client.factor("a") == 3
    assert client.states("a") == {"2": "READY"}
    assert len([*temporary.iterdir()]) == 1
    # The next load replaces this one, and removes its files with its code.
    policy = {"version_policy": {"all": {}}}
    assert client.load("a", policy, **{"file:2/model.py": code(4), "file:3/model.py": code(6)})[0] == 200
    assert (client.factor("a", "2"), client.factor("a", "3")) == (4, 6)
    until(lambda: len([*temporary.iterdir()]) == 1, "the first files to be removed")
    # A load without files restores the repository's model.
    assert client.load("a")[0] == 200
    assert client.factor("a") == 5
    until(lambda: not [*temporary.iterdir()], "all files to be removed")


def test_model_known_only_from_sent_files_loads_and_unloads(client: RepositoryClient, temporary: Path) -> None:
    assert client.load("new", {}, **{"file:1/model.py": code(3)})[0] == 200
    assert client.factor("new") == 3
    assert client.unload("new")[0] == 200
    until(lambda: not [*temporary.iterdir()], "the files to be removed")
    until(lambda: client.index("new") == [], "the model to be forgotten")


def test_failed_load_keeps_the_served_model_and_leaves_no_files(client: RepositoryClient, temporary: Path) -> None:
    status, response = client.load("a", {}, **{"file:1/model.py": "raise RuntimeError('/srv/secret')"})
    assert (status, response["error"]) == (
        500,
        "model 'a' version '1' could not be loaded: RuntimeError (model.py, line 1)",
    )
    assert client.factor("a") == 5
    until(lambda: not [*temporary.iterdir()], "the files to be removed")


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
def test_t37_sent_file_names_cannot_leave_the_folder(client: RepositoryClient, temporary: Path, name: str) -> None:
    status, response = client.load("a", {}, **{"file:1/model.py": code(3), f"file:{name}": "x"})
    assert status == 400
    assert "is not 'file:<version>/<file>', whose parts begin with a letter" in response["error"]
    assert response["error"].isprintable()
    assert [*temporary.iterdir()] == []
    assert client.factor("a") == 5


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
def test_invalid_sent_files_are_rejected(
    client: RepositoryClient, temporary: Path, files: dict[str, str], message: str
) -> None:
    status, response = client.load("a", {}, **files)
    assert status == 400
    assert response["error"].startswith(message)
    until(lambda: not [*temporary.iterdir()], "the files to be removed")


def test_t37_model_name_must_be_a_valid_folder_name(client: RepositoryClient) -> None:
    status, response = client.load("..a", {}, **{"file:1/model.py": code(3)})
    assert (status, response["error"]) == (400, "model '..a': a model whose files are sent cannot have that name")


def test_sent_files_over_max_body_bytes_are_refused(repository: Repository, temporary: Path) -> None:
    options: Any = {"http": "127.0.0.1:0", "grpc": None, "load_files": True, "max_body_bytes": 10_000}
    with Server(repository=repository.path, model_control="explicit", **options) as server:
        status, _ = RepositoryClient(server.http_url).load("a", {}, **{"file:1/model.py": "#" * 10_000})
        assert status == 413
        assert [*temporary.iterdir()] == []
