"""Limit of core dumps of a server and its child processes."""

from __future__ import annotations

import logging
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from penstock import Processes, Server, Tensor, model
from penstock._server import core_dumps
from penstock.client import Client

INHERITED = resource.getrlimit(resource.RLIMIT_CORE)
LIMIT = """
import os
from penstock._server import core_dumps
core_dumps.limit({mode!r})
os.abort()
"""


def soft_limit() -> np.ndarray:
    return np.array([resource.getrlimit(resource.RLIMIT_CORE)[0]], np.int64)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    resource.setrlimit(resource.RLIMIT_CORE, INHERITED)


@pytest.mark.parametrize(("mode", "expected"), [("off", 1), ("on", INHERITED[1]), ("inherit", INHERITED[0])])
def test_server_and_its_processes_have_the_limit(mode: str, expected: int) -> None:
    outputs = [Tensor("y", np.int64, [-1])]
    here = model(soft_limit, name="here", inputs=[], outputs=outputs)
    child = model(soft_limit, name="child", inputs=[], outputs=outputs, instances=Processes(1))
    with (
        Server(here, child, http="127.0.0.1:0", grpc=None, core_dumps=mode) as server,  # type: ignore[arg-type]
        Client(server.http_url) as client,
    ):
        for name in ("here", "child"):
            assert client.infer(name).y.tolist() == [expected]


@pytest.mark.parametrize(("mode", "dumps"), [("off", False), ("on", True)])
def test_limit_decides_about_a_dump(mode: str, dumps: bool, tmp_path: Path) -> None:
    if dumps and INHERITED[1] == 0:
        pytest.skip("the hard limit of core dumps is 0")
    path = os.pathsep.join(sys.path)
    code = LIMIT.format(mode=mode)
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment) as process:
        _, status = os.waitpid(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert os.WIFSIGNALED(status)
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if dumps and pattern.startswith(("|", "/")):
        # Whether it can be written there is not known.
        return
    assert os.WCOREDUMP(status) == dumps


def test_hard_limit_of_zero_is_reported(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, 0))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with caplog.at_level(logging.WARNING, "penstock"):
        core_dumps.limit("on")
    assert caplog.messages == ["core_dumps is on, but the hard limit of core dumps is 0 (ulimit -c)"]
