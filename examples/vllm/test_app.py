"""The app with a stand-in for the engine, which needs no GPU: `python -m pytest`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from penstock.testing import Client

import fake_vllm


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A server with the stand-in."""
    for name, module in fake_vllm.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "app", raising=False)
    import app

    with Client(app.Chat, app.api) as client:
        yield client


def test_chat(client: Client) -> None:
    request = {"model": "chat", "max_tokens": 2, "messages": [{"role": "user", "content": "the river turns"}]}
    response = client.post("/v1/chat/completions", json.dumps(request))
    assert response.status == 200, response.error()
    (choice,) = response.json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("the river ", "length")
