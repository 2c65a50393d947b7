"""A JavaScript client that the gRPC library for Node builds from the proto file."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from clients_tools import REPOSITORY, TOOLS

from serving_process import Serving


def test_javascript_client() -> None:
    program, modules = Path(__file__).parent / "js/client.js", TOOLS / "js" / "node_modules"
    path = os.pathsep.join([str(TOOLS / "js" / "bin"), os.environ.get("PATH", "")])
    node = shutil.which("node", path=path)
    if node is None or not modules.exists():
        pytest.skip("Node's gRPC is not installed; python tests/clients/setup_tools.py js_client fetches it")
    with Serving("streams.py", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0") as server:
        done = subprocess.run(
            [node, str(program), server.grpc, str(REPOSITORY / "proto/open_inference.proto")],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "NODE_PATH": str(modules)},
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ready true",
        "input x FP32 [-1,-1]",
        "output from-js 2 4 9",
        "refused true unknown model 'missing'",
        "chunk s 5 false",
        "chunk s 6 false",
        "chunk s 7 false",
        "chunk s none true",
    ]
