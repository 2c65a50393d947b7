"""What the tests of OpenAI's routes ask with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from openai import OpenAI

from penstock.testing import Client, Response

Ask = Callable[..., OpenAI]
"""Serves models, and gives a client of theirs."""


def post(client: Client, path: str, document: dict[str, Any]) -> Response:
    """The answer to a document, as it is."""
    return client.post(path, json.dumps(document))
