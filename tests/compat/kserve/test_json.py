"""JSON as clients write it, with orjson and without."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import orjson
import pytest

from penstock.compat.kserve.protocol import _json


@dataclass
class Point:
    x: int
    y: Any


@pytest.fixture(params=[orjson, None], ids=["orjson", "json"], autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType | None:
    monkeypatch.setattr(_json, "orjson", request.param)
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2.5, None, True, "é"]}, '{"a":[1,2.5,null,true,"é"]}'),
        ([float("nan"), float("inf"), 1.0], "[null,null,1.0]"),
        (np.array([[1, 2]]), "[[1,2]]"),
        (np.array([[1, 2], [3, 4]]).T, "[[1,3],[2,4]]"),
        ({"x": np.float32(0.5), "n": np.array([np.nan, 1])}, '{"x":0.5,"n":[null,1.0]}'),
        ([1 << 70], "[1180591620717411303424]"),
        ({1: (2, 3)}, '{"1":[2,3]}'),
        ({"x": np.float32(0.1), "h": np.array([0.1], np.float16)}, '{"x":0.1,"h":[0.099975586]}'),
        ({"d": datetime.date(2020, 1, 2), "u": uuid.UUID(int=1)}, f'{{"d":"2020-01-02","u":"{uuid.UUID(int=1)}"}}'),
        (Point(1, np.array([2])), '{"x":1,"y":[2]}'),
    ],
)
def test_values_are_written_as_json(value: Any, text: str) -> None:
    assert _json.dumps(value) == text.encode()


def test_values_not_serializable_as_json_are_rejected() -> None:
    with pytest.raises(TypeError, match="not JSON serializable: object"):
        _json.dumps([object()])


def test_circular_values_are_rejected() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises((ValueError, TypeError)):
        _json.dumps(value)


def test_json_is_parsed() -> None:
    assert _json.loads(b'{"a":[1]}') == {"a": [1]}
    assert _json.loads('"\u00e9"') == "é"


@pytest.mark.parametrize(
    "text", [b"{", b"", b"\xff", b"[NaN]", b"[1] 2", b"[" * 100000, b'["\\ud800"]', b'"\xed\xa0\x80"']
)
def test_invalid_json_is_rejected(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        _json.loads(text)


def test_dumps_spaced_writes_spaces_and_ascii() -> None:
    assert _json.dumps_spaced({"a": [1, np.float64("nan"), "é"]}) == b'{"a": [1, null, "\\u00e9"]}'
