"""Halves of surrogate pairs in JSON: no text of a tensor or parameter can be one, whatever way it comes."""

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

HALF = "a\ud800"


@model
def echo(text: str) -> str:
    return text


@model
def stream(text: str) -> Iterator[str]:
    yield text


@model
def document(said: dict[str, Any]) -> dict[str, Any]:
    return said


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(echo, stream, document) as client:
        yield client


TENSOR = {"name": "text", "shape": [], "datatype": "BYTES", "data": ["a"]}
SAID = {"name": "said", "shape": [], "datatype": "BYTES", "data": [json.dumps({"a": [HALF]})]}


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("v2/models/echo/infer", {"inputs": [{**TENSOR, "data": [HALF]}]}, "expected surrogates in pairs"),
        ("v2/models/echo/infer", {"inputs": [{**TENSOR, "name": HALF}]}, "expected surrogates in pairs"),
        ("v2/models/echo/infer", {"id": HALF, "inputs": [TENSOR]}, "expected surrogates in pairs"),
        ("v2/models/echo/infer", {"parameters": {"a": HALF}, "inputs": [TENSOR]}, "expected surrogates in pairs"),
        ("v2/models/document/infer", {"inputs": [SAID]}, "input 'said' must hold one JSON document: 'a.0.' has half"),
        ("v2/models/echo/generate", {"text": HALF}, "expected surrogates in pairs"),
        ("v2/models/stream/generate_stream", {"text": HALF}, "expected surrogates in pairs"),
        ("v1/models/echo:predict", {"instances": [HALF]}, "expected surrogates in pairs"),
        ("v1/models/document:predict", {"instances": [{"a": {"b": HALF}}]}, "input 'said' .*: 'a.b' has half of a"),
        ("v1/models/document:predict", {"instances": [{"a": {HALF: 1}}]}, "input 'said' .*: 'a' has half of a"),
    ],
)
def test_halves_of_pairs_are_refused(client: Client, path: str, body: Any, told: str) -> None:
    answer = client.post(f"/{path}", json.dumps(body))
    assert answer.status == 400
    assert re.search(told, answer.error()), answer.error()


def test_whole_pairs_are_text(client: Client) -> None:
    answer = client.post("/v1/models/document:predict", json.dumps({"instances": [{"a": "\U0001f600"}]}))
    assert answer.json() == {"predictions": [{"a": "\U0001f600"}]}


@pytest.mark.parametrize(
    ("text", "place"),
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
def test_the_place_of_a_half(text: bytes | str, place: str | None) -> None:
    assert json_text.find_surrogate(text, json.loads(text)) == place
    if place is None:
        assert json_text.loads(text) == json.loads(text)
    else:
        with pytest.raises(ValueError, match=r"' has half of a surrogate pair, expected Unicode text"):
            json_text.loads(text)


def test_the_place_of_a_text_is_made_for_what_is_found_only() -> None:
    """A long name that many values are under: a path for each of them would be megabytes each."""
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
        json_text.loads(json.dumps({"A" * 1000: [HALF]}))
