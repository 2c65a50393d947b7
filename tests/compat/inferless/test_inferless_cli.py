"""The commands on an app's folder: I-01, I-27, I-33, G-06."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from inferless_apps import ANY, app_class, tensor, write_app

from serving_process import Serving

ECHO = app_class("def infer(self, inputs): return {'y': inputs.get('x', 'nothing')}")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_i01_serve_prints_a_curl_command(tmp_path: Path) -> None:
    from urllib.request import Request, urlopen

    home = write_app(tmp_path, ECHO)
    with Serving(str(home), "--http", "127.0.0.1:0", "--grpc", "off", "--option", "name=other") as server:
        body = json.dumps({"inputs": [tensor("x", "BYTES", "hi")]}).encode()
        with urlopen(Request(f"{server.http}/v2/models/other/infer", body)) as response:
            assert json.load(response)["outputs"][0]["data"] == ["hi"]
        (line,) = [one for one in server.out.splitlines() if one.startswith("try ")]
        assert f"curl {server.http}/v2/models/other/infer -H 'Content-Type: application/json' -d '" in line
        assert '"name": "x", "shape": [1], "datatype": "BYTES", "data": ["a"]' in line


def test_g06_detect_reports_the_integration(tmp_path: Path) -> None:
    done = run("detect", str(write_app(tmp_path, ECHO)))
    assert done.returncode == 0
    assert "inferless: its app.py has the class InferlessPythonModel" in done.stdout


def test_i27_check_reports_errors_of_the_code(tmp_path: Path) -> None:
    assert run("check", str(write_app(tmp_path, ECHO))).returncode == 0
    done = run("check", str(write_app(tmp_path, app_class("def infer(self, inputs): return {'y': z}"), ANY)))
    assert done.returncode != 0
    assert "NameError: name 'z' is not defined (app.py, line 4)" in done.stdout + done.stderr


def test_i33_init_writes_an_app(tmp_path: Path) -> None:
    done = run("init", "--integration", "inferless", str(tmp_path / "words"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "words" / "app.py").is_file()
