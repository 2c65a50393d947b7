"""The self-check command."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from test_triton_process import environment

from penstock.compat.pytriton.check import _command


@pytest.fixture(autouse=True)
def import_path_of_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])


def test_check_runs_all_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All clients run over both protocols, in this process and against a script."""
    assert _command.main(["-w", str(tmp_path / "w"), "--zip"]) == 0
    output = capsys.readouterr().err
    for client in ("ModelClient", "FuturesModelClient", "AsyncioModelClient"):
        assert output.count(f": {client} with http://") == output.count(f": {client} with grpc://") == 2
    for client in ("DecoupledModelClient", "AsyncioDecoupledModelClient"):
        assert output.count(f": {client} with grpc://") == 2
    assert "the script ended on SIGINT" in output
    assert output.endswith("all checks passed\n")
    names = {"env_log.txt", "example_add_sub_log.txt", "example_add_sub_script_log.txt", "server.py"}
    assert set(os.listdir(tmp_path / "w")) == names
    assert names <= set(zipfile.ZipFile(tmp_path / "w.zip").namelist())


def test_environment_report_omits_variables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "hush-hush")
    assert _command.main(["env"]) == 0
    output = capsys.readouterr().err
    assert "penstock" in output
    assert "numpy" in output
    assert "hush-hush" not in output


def test_failed_check_is_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError("no ports left")

    monkeypatch.setitem(_command._CHECKS, "example-add-sub", broken)
    assert _command.main(["example-add-sub"]) == 1
    output = capsys.readouterr().err
    assert "OSError: no ports left" in output
    assert output.endswith("failed: example-add-sub\n")


def test_existing_workspace_is_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _command.main(["env", "--workspace", str(tmp_path)]) == 1
    assert "already exists" in capsys.readouterr().err
    assert not os.listdir(tmp_path)


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(SystemExit) as raised:
        _command.main(["everything"])
    assert raised.value.code == 2
