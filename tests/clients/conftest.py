"""Fixtures of the external client tools that setup_tools.py installs, and of a server for them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from clients_tools import TOOLS

from serving_process import Serving


class Tool:
    """A program that runs until it exits."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs the program and requires exit status 0."""
        done = subprocess.run(
            [self.path, *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done


def find(name: str) -> Tool:
    """A tool from the tools folder or from PATH; skips the test if it is not installed."""
    path = shutil.which(name, path=str(TOOLS / "bin")) or shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed; python tests/clients/setup_tools.py fetches it")
    return Tool(path)


@pytest.fixture
def curl() -> Tool:
    return find("curl")


@pytest.fixture
def ghz() -> Tool:
    return find("ghz")


@pytest.fixture
def grpcurl() -> Tool:
    return find("grpcurl")


@pytest.fixture
def h2spec() -> Tool:
    return find("h2spec")


@pytest.fixture
def k6() -> Tool:
    return find("k6")


@pytest.fixture
def perf_analyzer() -> Tool:
    return find("perf_analyzer")


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    """Server of models/double.py over HTTP and gRPC."""
    with Serving("double.py", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0") as server:
        yield server
