"""A server of native models for all client tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from native_server import CLIENT_LEFT, RELEASE, Urls, serving


@pytest.fixture(scope="session")
def urls() -> Iterator[Urls]:
    with serving() as urls:
        yield urls


@pytest.fixture(params=["http", "grpc"])
def url(request: pytest.FixtureRequest, urls: Urls) -> str:
    return str(getattr(urls, request.param))


@pytest.fixture
def held_back() -> Iterator[None]:
    """Blocks `held` and `halting` until the test releases them."""
    RELEASE.clear()
    CLIENT_LEFT.clear()
    yield
    RELEASE.set()
