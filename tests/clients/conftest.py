"""The tools that these tests drive, each where setup_tools.py puts it; and a server for them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from clients_tools import TOOLS

from serving_process import Serving


class Tool:
    """A program that is run to its end."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs it; it must end well."""
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
    """A tool from the folder of tools, else from the path; skips the test where it is in neither."""
    found = shutil.which(name, path=str(TOOLS / "bin")) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; python tests/clients/setup_tools.py fetches it")
    return Tool(found)


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
    """models/double.py, over HTTP and gRPC."""
    with Serving("double.py", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0") as server:
        yield server
