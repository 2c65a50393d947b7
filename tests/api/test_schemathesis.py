"""Property tests with schemathesis: valid and invalid requests from the OpenAPI document.

It finds schemas that are looser or stricter than the server, undocumented statuses or content types, and crashes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import documents, protocol, v1
from penstock import Server, ServerConfig, Tensor, model

# Sums of the largest numbers overflow.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")

SEED, EXAMPLES = 1, 3
SECONDS = 900
"""Time limit; a run takes about half a minute."""


@model(
    inputs=[Tensor("x", np.uint8, [2, 3]), Tensor("flag", bool, [], optional=True)],
    outputs=[Tensor("y", np.uint8, [2, 3])],
)
def fixed(x: Any, flag: Any = None) -> Any:
    return x


@model(inputs=[Tensor("x", np.int16, [2])], outputs=[Tensor("y", np.int16, [2])])
def pair(x: Any) -> Any:
    return x


@model(inputs=[Tensor("x", np.int64, [-1])], outputs=[Tensor("low", np.int64, [-1]), Tensor("any", bool, [])])
def parts(x: Any) -> Any:
    return x & 255, x.any()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    models = (fixed, pair, protocol.add, parts, protocol.scalar, v1.two, documents.greet)
    # NaN and Infinity are not JSON, so validators reject them.
    config = ServerConfig(http="127.0.0.1:0", grpc=None, strict_json=True)
    with Server(*models, config=config) as server:
        yield server.http_url


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("schemathesis") / "schemathesis.toml"
    # Tiny timeouts, unsupported calls and disabled features return 504, 501 and 503, each documented.
    file.write_text('[checks.not_a_server_error]\nexpected-statuses = ["2xx", "3xx", "4xx", 501, 503, 504]\n')
    return file


def explore(url: str, config: Path, *options: str) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{url}/openapi.json"]
    command += ["--no-color", *options]
    limits = ["--seed", str(SEED), "--max-examples", str(EXAMPLES), "--suppress-health-check", "all"]
    completed = subprocess.run(
        [*command, *limits], capture_output=True, text=True, check=False, timeout=SECONDS, cwd=config.parent
    )
    assert completed.returncode == 0, completed.stdout[-8000:] + completed.stderr[-2000:]
    assert "generated" in completed.stdout


def test_server_conforms_to_its_document(url: str, config: Path) -> None:
    # A schema cannot relate `shape` to `data`, or the rows of inputs to each other: a valid request
    # that matches the schema may be rejected. Versions have the same schemas.
    explore(
        url,
        config,
        "--phases",
        "examples,coverage,fuzzing",
        "--exclude-checks",
        "positive_data_acceptance",
        "--exclude-path-regex",
        "/versions/",
    )


def test_valid_fixed_shape_requests_are_accepted(url: str, config: Path) -> None:
    explore(
        url, config, "--phases", "examples,fuzzing", "--mode", "positive", "--include-path", "/v1/models/pair:predict"
    )
