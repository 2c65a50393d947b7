"""The command: `check` and its parts."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from test_triton_process import environment

from penstock.compat.pytriton.check import _command


@pytest.fixture(autouse=True)
def scripts_find_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])


def test_check_tries_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All clients, over both protocols, in this process and of a script of its own."""
    assert _command.main(["-w", str(tmp_path / "w"), "--zip"]) == 0
    said = capsys.readouterr().err
    for client in ("ModelClient", "FuturesModelClient", "AsyncioModelClient"):
        assert said.count(f": {client} with http://") == said.count(f": {client} with grpc://") == 2
    for client in ("DecoupledModelClient", "AsyncioDecoupledModelClient"):
        assert said.count(f": {client} with grpc://") == 2
    assert "the script ended on SIGINT" in said
    assert said.endswith("all checks passed\n")
    names = {"env_log.txt", "example_add_sub_log.txt", "example_add_sub_script_log.txt", "server.py"}
    assert set(os.listdir(tmp_path / "w")) == names
    assert names <= set(zipfile.ZipFile(tmp_path / "w.zip").namelist())


def test_the_environment_is_told_without_its_variables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "hush-hush")
    assert _command.main(["env"]) == 0
    said = capsys.readouterr().err
    assert "penstock" in said
    assert "numpy" in said
    assert "hush-hush" not in said


def test_what_does_not_work_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError("no ports left")

    monkeypatch.setitem(_command._CHECKS, "example-add-sub", broken)
    assert _command.main(["example-add-sub"]) == 1
    said = capsys.readouterr().err
    assert "OSError: no ports left" in said
    assert said.endswith("failed: example-add-sub\n")


def test_a_workspace_that_exists_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _command.main(["env", "--workspace", str(tmp_path)]) == 1
    assert "already exists" in capsys.readouterr().err
    assert not os.listdir(tmp_path)


def test_wrong_usage() -> None:
    with pytest.raises(SystemExit) as ended:
        _command.main(["everything"])
    assert ended.value.code == 2
