"""The command line, on the repository of examples/modelbit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from modelbit_http import HttpClient

from penstock.compat.modelbit import get_inference

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "modelbit"


@pytest.fixture(scope="module")
def served_by_command() -> Iterator[HttpClient]:
    """Runs `penstock serve examples/modelbit`."""
    options = ["--http", "127.0.0.1:0", "--grpc", "off", "--option", "workers=2"]
    command = [sys.executable, "-m", "penstock", "serve", str(EXAMPLE), *options]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if match := re.search(r"http://127\.0\.0\.1:\d+", line):
                yield HttpClient(match[0], EXAMPLE)
                break
    finally:
        server.send_signal(signal.SIGTERM)
        _, message = server.communicate(timeout=30)
    assert server.returncode == 0, message


def test_m01_readme_calls_return_the_documented_results(served_by_command: HttpClient) -> None:
    text = (EXAMPLE / "README.md").read_text()
    calls = re.findall(r"curl localhost:8000(\S+) -d '(.*)'\n# (.*)\n", text)
    assert len(calls) == 2
    for path, body, expected in calls:
        assert served_by_command.raw(path, body.encode()).json == json.loads(expected)


def test_m12_readme_frame_returns_the_documented_result(served_by_command: HttpClient) -> None:
    houses = pd.DataFrame({"rooms": [3, 2], "area": [80.0, 55.5]}, index=["a", "b"])
    response = get_inference("price", houses, base_url=served_by_command.url)
    assert response == {"data": [["a", 320000.0], ["b", 218750.0]]}


def test_g04_metrics_count_requests_by_deployment(served_by_command: HttpClient) -> None:
    served_by_command.call("doubler", 1)
    served_by_command.call("doubler", "a", timeout_seconds=5)
    text = served_by_command.raw("/metrics").body.decode()
    assert re.search(r'penstock_requests_total\{model="doubler",[^}]*\} [1-9]', text)
    assert re.search(r'penstock_requests_total\{model="modelbit.modelbit",[^}]*\} [1-9]', text)


@pytest.mark.parametrize(
    ("path", "method"), [("/v1/nothing/latest", "POST"), ("/v1/doubler/latest", "GET"), ("/v1", "POST")]
)
def test_g02_errors_are_json(served_by_command: HttpClient, path: str, method: str) -> None:
    response = served_by_command.raw(path, b'{"data": 1}', method=method)
    assert response.error


def test_g06_detect_and_check_commands() -> None:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    for name, message in (("detect", "modelbit"), ("check", "")):
        command = [sys.executable, "-m", "penstock", name, str(EXAMPLE)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert message in done.stdout
