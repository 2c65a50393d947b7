"""Helpers of the tests of OpenAI's routes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from openai import OpenAI

from penstock.testing import Client, Response

ServeModels = Callable[..., OpenAI]
"""Serves models and returns a client of that server."""


def post(client: Client, path: str, document: dict[str, Any]) -> Response:
    """The raw response to a JSON document."""
    return client.post(path, json.dumps(document))
