"""One server of native models for all tests of the clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from native_server import GO_ON, LEFT, Urls, serving


@pytest.fixture(scope="session")
def urls() -> Iterator[Urls]:
    with serving() as urls:
        yield urls


@pytest.fixture(params=["http", "grpc"])
def url(request: pytest.FixtureRequest, urls: Urls) -> str:
    return str(getattr(urls, request.param))


@pytest.fixture
def held_back() -> Iterator[None]:
    """Until the test says otherwise, `held` and `halting` do not go on."""
    GO_ON.clear()
    LEFT.clear()
    yield
    GO_ON.set()
