"""M-11: the vendor's published client against this integration.

tests/clients/setup_tools.py installs it in a separate environment. It uses plain HTTP only for hosts with `:5000` in
their name, so the server listens on port 5000, or on a port that starts with 5000.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from modelbit_repository import Files, write_repository

from penstock import Server
from penstock.compat import modelbit

TOOLS = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or Path(__file__).resolve().parents[3] / ".tools").absolute()
PYTHON = TOOLS / "modelbit" / "bin" / "python"

DEPLOYMENTS = {
    "doubler": Files("def doubler(half):\n    return half * 2\n", "doubler"),
    "fails": Files(
        "COUNT = 0\ndef fails(value):\n    global COUNT\n    if value == 'count':\n        return COUNT\n"
        "    COUNT += 1\n    return 1 / value\n",
        "fails",
    ),
    "sleeps": Files("import time\ndef sleeps(seconds):\n    time.sleep(seconds)\n", "sleeps"),
    "frame": Files(
        "def frame(df):\n    return [f'{x} {name}' for x, name in zip(df['x'], df['name'])]\n",
        "frame",
        {"dataframeModeColumns": [{"name": "x", "dtype": "float64"}, {"name": "name", "dtype": "object"}]},
    ),
}


def free_port() -> int:
    """A port that starts with 5000, which the client expects in the host name."""
    for port in (5000, *range(50000, 50010)):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    pytest.skip("no port that the client accepts is free")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of the client."""
    if not PYTHON.exists():
        # The client is proprietary: it is installed on request only.
        pytest.skip("Modelbit's client is proprietary, and not fetched: python tests/clients/setup_tools.py modelbit")
    folder = write_repository(tmp_path_factory.mktemp("official"), DEPLOYMENTS)
    (folder / "aliases.yaml").write_text("doubler: {official: 1}\n")
    port = free_port()
    options = {"keys": "right", "require_key": "off"}
    with Server(*modelbit.load(folder, options), http=f"127.0.0.1:{port}", grpc=None):
        home = str(tmp_path_factory.mktemp("home"))
        script = Path(__file__).with_name("modelbit_official_calls.py")
        command = [str(PYTHON), str(script), str(port)]
        environment = {"PATH": os.environ["PATH"], "HOME": home}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


def test_m11_single_calls_and_batches(results: dict[str, Any]) -> None:
    assert results["single"] == {"data": 42}
    assert results["batch"] == {"data": [[1, 20], [2, 22]]}
    assert results["version"] == results["alias"] == {"data": 2}


def test_m11_large_batches_are_split(results: dict[str, Any]) -> None:
    assert results["chunked"] == {"data": [[place, place * 2] for place in range(1000)]}
    assert results["bytes"] == {"data": [[place, "x" * 200] for place in range(50)]}


def test_m11_data_frames_are_sent(results: dict[str, Any]) -> None:
    assert results["frame"] == {"data": [[7, "1.5 a"], [9, "2.5 b"]]}


def test_m09_failures_are_not_retried(results: dict[str, Any]) -> None:
    kind, text, seconds = results["fails"]
    assert (kind, text) == ("ModelbitError", "ZeroDivisionError: division by zero")
    assert seconds < 5
    assert results["fails in a batch"][1] == 'row id "b": ZeroDivisionError: division by zero'
    # Once for the call, and once for each row of the batch.
    assert results["count"] == {"data": 3}


def test_m11_errors_are_raised_by_the_client(results: dict[str, Any]) -> None:
    assert results["timeout"][1] == "deployment 'sleeps' did not answer within 1 seconds, and was stopped"
    assert results["timeout"][2] < 5
    assert results["key"][1] == "the API key is not valid"
    assert results["unknown"][0] == "ModelbitError"
