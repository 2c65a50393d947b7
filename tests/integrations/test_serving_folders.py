"""`penstock serve FOLDER` in a separate process."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from http_by_hand import get, json_body, post
from penstock._cli import main
from serving_process import Serving
from waiting import until

PORTS = ("--http", "127.0.0.1:0", "--grpc", "off")


def scores(url: str) -> list[float]:
    body = json_body({"x": np.ones((1, 4), np.float32)})
    values: list[float] = post(url, "/v2/models/Score/infer", body).json()["outputs"][0]["data"]
    return values


def test_i32_served_folder_is_reloaded_when_it_changes(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert main.main(["init", str(folder)]) == 0
    if sys.version_info < (3, 11):
        (folder / "penstock.toml").unlink()
    with Serving(str(folder), "--reload", *PORTS) as serving:
        assert scores(serving.http) == pytest.approx([1.0])
        code = (folder / "app.py").read_text()
        (folder / "app.py").write_text(code.replace("x @ self.weights", "x @ self.weights + 1"))
        assert serving.await_stderr("reloaded in ")
        assert until(lambda: scores(serving.http) == pytest.approx([2.0]), "the new code")


def test_package_is_served_by_its_module_name(tmp_path: Path) -> None:
    assert main.main(["init", str(tmp_path / "new")]) == 0
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text((tmp_path / "new/app.py").read_text())
    with Serving("package", *PORTS, folder=tmp_path) as serving:
        assert get(serving.http, "/v2/models/Score").status == 200
