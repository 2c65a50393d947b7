"""Servers with OpenAI's routes, and OpenAI's own client at them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from asking_openai import Ask
from openai import OpenAI

from penstock import Server
from waiting import PATIENCE


@pytest.fixture
def client_of() -> Iterator[Ask]:
    """Serves models, and gives a client of theirs."""
    with ExitStack() as opened:

        def serve(*models: Any, base: str = "/v1", **options: Any) -> OpenAI:
            server = opened.enter_context(Server(*models, http="127.0.0.1:0", grpc=None, **options))
            url = f"{server.http_url}{base}"
            return opened.enter_context(OpenAI(base_url=url, api_key="-", max_retries=0, timeout=PATIENCE))

        yield serve
