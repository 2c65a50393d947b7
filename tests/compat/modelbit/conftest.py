"""A server of a test module's deployments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from modelbit_http import HttpClient
from modelbit_repository import write_repository

from penstock import Server
from penstock.compat import modelbit


@pytest.fixture(scope="module", params=["process", "server"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpClient]:
    """A server of the test module's DEPLOYMENTS, with its OPTIONS.

    Each test runs with both kinds of isolation, unless it also uses `processes_only`.
    """
    folder = write_repository(tmp_path_factory.mktemp("modelbit"), request.module.DEPLOYMENTS)
    for name, text in getattr(request.module, "FILES", {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    options = {name: text.format(folder=folder) for name, text in getattr(request.module, "OPTIONS", {}).items()}
    options["isolation"] = request.param
    settings = getattr(request.module, "SETTINGS", {})
    with Server(*modelbit.load(folder, options), http="127.0.0.1:0", grpc=None, **settings) as server:
        yield HttpClient(server.http_url, folder, isolation=request.param)


@pytest.fixture
def processes_only(served: HttpClient) -> None:
    """Skips a test if functions run in the server's process."""
    if served.isolation != "process":
        pytest.skip("needs worker processes")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[modelbit.Workspace]:
    """A workspace for one test."""
    with modelbit.Workspace(tmp_path / "workspace", address="127.0.0.1:0") as workspace:
        yield workspace
