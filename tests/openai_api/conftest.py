"""Servers with OpenAI's routes, and the official OpenAI client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from openai import OpenAI
from openai_helpers import ServeModels

from penstock import Server
from waiting import PATIENCE


@pytest.fixture
def client_of() -> Iterator[ServeModels]:
    """A function that serves models and returns a client of that server."""
    with ExitStack() as opened:

        def serve(*models: Any, base: str = "/v1", **options: Any) -> OpenAI:
            server = opened.enter_context(Server(*models, http="127.0.0.1:0", grpc=None, **options))
            url = f"{server.http_url}{base}"
            return opened.enter_context(OpenAI(base_url=url, api_key="-", max_retries=0, timeout=PATIENCE))

        yield serve
