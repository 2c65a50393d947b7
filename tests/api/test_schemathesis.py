"""schemathesis sends what the document allows, and what it does not, and believes neither side.

Its findings are of both: a schema that is looser or stricter than the server, a status or content type that is not
described, a crash.
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

# Numbers as large as there are overflow when they are added.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")

SEED, EXAMPLES = 1, 3
SECONDS = 900
"""Far more than it takes: about half a minute."""


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
    # Names for infinities are no JSON, and no validator of JSON knows them.
    config = ServerConfig(http="127.0.0.1:0", grpc=None, strict_json=True)
    with Server(*models, config=config) as server:
        yield server.http_url


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("schemathesis") / "schemathesis.toml"
    # Asked within a microsecond, for a thing that is not served, or that is off: 504, 501, 503, each described.
    file.write_text('[checks.not_a_server_error]\nexpected-statuses = ["2xx", "3xx", "4xx", 501, 503, 504]\n')
    return file


def explore(url: str, config: Path, *options: str) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{url}/openapi.json"]
    command += ["--no-color", *options]
    limits = ["--seed", str(SEED), "--max-examples", str(EXAMPLES), "--suppress-health-check", "all"]
    done = subprocess.run(
        [*command, *limits], capture_output=True, text=True, check=False, timeout=SECONDS, cwd=config.parent
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "generated" in done.stdout


def test_the_server_does_as_its_document_says(url: str, config: Path) -> None:
    # Between `shape` and `data`, and between rows of inputs, stand rules that no schema can say: what a schema allows
    # may be refused. Versions have the same schemas.
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


def test_what_the_schema_of_fixed_shapes_allows_is_accepted(url: str, config: Path) -> None:
    explore(
        url, config, "--phases", "examples,fuzzing", "--mode", "positive", "--include-path", "/v1/models/pair:predict"
    )
