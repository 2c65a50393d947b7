"""JSON as clients write it, with orjson and without."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import orjson
import pytest

from penstock.compat.kserve import _json


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
    ],
)
def test_values_become_json(value: Any, text: str) -> None:
    assert _json.dumps(value) == text.encode()


def test_what_json_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="not JSON serializable: object"):
        _json.dumps([object()])


def test_json_becomes_values() -> None:
    assert _json.loads(b'{"a":[1]}') == {"a": [1]}
    with pytest.raises(ValueError, match=r"."):
        _json.loads(b"{")
