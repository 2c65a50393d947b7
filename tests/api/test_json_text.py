"""Unpaired surrogates in JSON are rejected in tensors, names, ids and parameters."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import model
from penstock._handler import json_text
from penstock.testing import Client

UNPAIRED = "a\ud800"


@model
def echo(text: str) -> str:
    return text


@model
def stream(text: str) -> Iterator[str]:
    yield text


@model
def document(record: dict[str, Any]) -> dict[str, Any]:
    return record


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(echo, stream, document) as client:
        yield client


TENSOR = {"name": "text", "shape": [], "datatype": "BYTES", "data": ["a"]}
RECORD = {"name": "record", "shape": [], "datatype": "BYTES", "data": [json.dumps({"a": [UNPAIRED]})]}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("v2/models/echo/infer", {"inputs": [{**TENSOR, "data": [UNPAIRED]}]}, "expected surrogates in pairs"),
        ("v2/models/echo/infer", {"inputs": [{**TENSOR, "name": UNPAIRED}]}, "expected surrogates in pairs"),
        ("v2/models/echo/infer", {"id": UNPAIRED, "inputs": [TENSOR]}, "expected surrogates in pairs"),
        ("v2/models/echo/infer", {"parameters": {"a": UNPAIRED}, "inputs": [TENSOR]}, "expected surrogates in pairs"),
        (
            "v2/models/document/infer",
            {"inputs": [RECORD]},
            "input 'record' must hold one JSON document: 'a.0.' has half",
        ),
        ("v2/models/echo/generate", {"text": UNPAIRED}, "expected surrogates in pairs"),
        ("v2/models/stream/generate_stream", {"text": UNPAIRED}, "expected surrogates in pairs"),
        ("v1/models/echo:predict", {"instances": [UNPAIRED]}, "expected surrogates in pairs"),
        (
            "v1/models/document:predict",
            {"instances": [{"a": {"b": UNPAIRED}}]},
            "input 'record' .*: 'a.b' has half of a",
        ),
        ("v1/models/document:predict", {"instances": [{"a": {UNPAIRED: 1}}]}, "input 'record' .*: 'a' has half of a"),
    ],
)
def test_unpaired_surrogates_are_rejected(client: Client, path: str, body: Any, message: str) -> None:
    response = client.post(f"/{path}", json.dumps(body))
    assert response.status == 400
    assert re.search(message, response.error()), response.error()


def test_surrogate_pairs_are_accepted(client: Client) -> None:
    response = client.post("/v1/models/document:predict", json.dumps({"instances": [{"a": "\U0001f600"}]}))
    assert response.json() == {"predictions": [{"a": "\U0001f600"}]}


@pytest.mark.parametrize(
    ("text", "location"),
    [
        (b'{"a": "\\uD83D\\uDE00", "b": ["\\\\ud800"]}', None),
        (b'{"a": [1, {"b": "\\uD800"}]}', "a[1].b"),
        (b'["\\udfffa"]', "[0]"),
        (b'"\xed\xa0\x80"', "body"),
        (b'{"\\uD800": 1}', "body"),
        ('{"a": "\ud800"}', "a"),
        ('"\\ud800"'.encode("utf-16"), "body"),
        ('"a"'.encode("utf-16"), None),
        (b'{"%s": "\\uD800"}' % (b"k" * 1000), "k" * 200),
    ],
)
def test_unpaired_surrogate_is_located(text: bytes | str, location: str | None) -> None:
    assert json_text.find_surrogate(text, json.loads(text)) == location
    if location is None:
        assert json_text.loads(text) == json.loads(text)
    else:
        with pytest.raises(ValueError, match=r"' has half of a surrogate pair, expected Unicode text"):
            json_text.loads(text)


def test_surrogate_search_builds_no_path_for_other_values() -> None:
    """A long name above many values: a path for each of them would take megabytes."""
    text = json.dumps({"A" * 1_000_000: [0, [], "b"] * 300, "x": "\U0001f600"})
    tracemalloc.start()
    try:
        value = json_text.loads(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert value["x"] == "\U0001f600"
    assert peak < 20_000_000
    with pytest.raises(ValueError, match=re.escape("'AAA")):
        json_text.loads(json.dumps({"A" * 1000: [UNPAIRED]}))
