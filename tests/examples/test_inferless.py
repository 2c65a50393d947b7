"""The Inferless apps of examples/inferless."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

testing = pytest.importorskip("penstock.testing")

APPS = Path(__file__).resolve().parents[2] / "examples" / "inferless"


def test_words_app_counts_words() -> None:
    from penstock.compat import inferless

    assert inferless.check(APPS / "words") == []
    with testing.Client(*inferless.load(APPS / "words", {})) as client:
        tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["The cat sees the dog"]}
        response = client.post("/v2/models/words/infer", json.dumps({"inputs": [tensor]})).json()
    assert {one["name"]: one["data"] for one in response["outputs"]} == {
        "words": ["the", "cat", "dog"],
        "counts": [2, 1, 1],
    }


def test_chat_app_streams_words() -> None:
    from penstock.compat import inferless

    assert inferless.check(APPS / "chat") == []
    with testing.Client(*inferless.load(APPS / "chat", {})) as client:
        body = {"parameters": {"prompt": "Where is the cat?", "words": 3}}
        response = client.post("/v2/models/chat/infer", json.dumps(body))
    events = [json.loads(line.removeprefix("data: ")) for line in response.body.decode().split("\n\n") if line]
    assert [one["word"] for one in events] == ["the", "cat", "is"]
