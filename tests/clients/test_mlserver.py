"""MLServer's codecs and converters over REST and gRPC, in a separate interpreter."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from clients_tools import TOOLS

from serving_process import Serving

PYTHON = TOOLS / "mlserver" / "bin" / "python"
SCRIPT = Path(__file__).parent / "mlserver_calls.py"


def test_mlserver_codecs_over_rest_and_grpc(server: Serving) -> None:
    """Raw gRPC requests of MLServer have empty typed contents in addition to the raw tensors."""
    if not PYTHON.exists():
        pytest.skip("mlserver is not installed; python tests/clients/setup_tools.py fetches it")
    command = [str(PYTHON), str(SCRIPT), server.http, server.grpc]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    response = ["from-mlserver", [[2, 4, 6, 9]]]
    assert json.loads(done.stdout.splitlines()[-1]) == {"rest": response, "typed": response, "raw": response}
