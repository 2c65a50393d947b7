"""KServe's client, over V1 and V2 (case G6). It runs in a separate interpreter, because of its pins."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from clients_tools import TOOLS

from serving_process import Serving

PYTHON = TOOLS / "kserve" / "bin" / "python"
SCRIPT = Path(__file__).parent / "kserve_calls.py"


def test_g6_rest_and_grpc_clients() -> None:
    if not PYTHON.exists():
        pytest.skip("kserve is not installed; python tests/clients/setup_tools.py fetches it")
    with Serving("v1.py", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0") as server:
        command = [str(PYTHON), str(SCRIPT), server.http, server.grpc]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    results = json.loads(done.stdout.splitlines()[-1])
    assert results["v1"] == {
        "live": True,
        "ready": True,
        "infer": {"predictions": [[2, 4], [6, 8]]},
        "rows": {"predictions": [{"total": 3, "b": 7}]},
        "documents": {"predictions": [{"hello": "Bo", "next": 1}]},
        "explain": {"explanations": [[2, 2]]},
        "unknown": 404,
    }
    v2 = {"live": True, "server_ready": True, "ready": True, "infer": [2, 4]}
    assert results["v2"] == {**v2, "binary": [2, 4], "unknown": False}
    assert results["grpc"] == v2
