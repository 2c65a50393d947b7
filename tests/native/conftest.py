"""A server of many models, and a client of it over every kind of URL."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from native_models import MODELS
from penstock import Client, Server


@pytest.fixture(scope="session")
def urls() -> Iterator[dict[str, str]]:
    """The URLs of one server, by kind."""
    with tempfile.TemporaryDirectory() as folder:
        http, grpc = Path(folder) / "http.sock", Path(folder) / "grpc.sock"
        with (
            Server(*MODELS, http="127.0.0.1:0", grpc="127.0.0.1:0") as tcp,
            Server(*MODELS, http=f"unix:{http}", grpc=f"unix:{grpc}"),
        ):
            yield {
                "http": tcp.http_url,
                "grpc": f"grpc://{tcp.grpc_address}",
                "unix": f"unix:{http}",
                "grpc+unix": f"grpc+unix:{grpc}",
            }


@pytest.fixture(params=["http", "grpc", "unix", "grpc+unix"])
def url(request: pytest.FixtureRequest, urls: dict[str, str]) -> str:
    return urls[request.param]


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


@pytest.fixture
def x() -> np.ndarray[Any, Any]:
    return np.arange(6, dtype=np.float32).reshape(2, 3)
