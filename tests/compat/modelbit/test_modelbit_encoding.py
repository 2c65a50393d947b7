"""M-08: results of functions as portable JSON."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import gc
import json
import math
import uuid
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from penstock.compat.modelbit import _json_codec as json_codec
from penstock.compat.modelbit._json_codec import dumps, loads


@pytest.fixture(params=["orjson", "json"], autouse=True)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs each test with and without orjson; the results must be equal."""
    if request.param == "json":
        monkeypatch.setattr(json_codec, "orjson", None)
    else:
        pytest.importorskip("orjson")


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    a: int
    b: float


@dataclasses.dataclass
class Box:
    size: int
    _hidden: int = 1


class Point:
    def __init__(self) -> None:
        self.x, self.y = 1, np.float32(0.5)


def parse_strictly(text: bytes) -> Any:
    def reject(name: str) -> Any:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=reject)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (np.bool_(True), True),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), None),
        (np.str_("a"), "a"),
        (np.array([[1.0, float("nan")], [2.0, 3.0]]), [[1.0, None], [2.0, 3.0]]),
        (np.array(4), 4),
        (np.array(["a", "b"]), ["a", "b"]),
        ({"a": math.nan, "b": [math.inf, -math.inf]}, {"a": None, "b": [None, None]}),
        ((1, math.nan), [1, None]),
        (pd.DataFrame({"a": [1, 2], "b": [0.5, None]}), [{"a": 1, "b": 0.5}, {"a": 2, "b": None}]),
        (pd.Series([1, 2]), [1, 2]),
        (pd.Index(["a"]), ["a"]),
        ([pd.NaT, pd.NA], [None, None]),
        (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02 03:04:00"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.time(3, 4), "03:04:00"),
        (pd.Timestamp("2026-01-02"), "2026-01-02 00:00:00"),
        (pd.Timedelta(1, "h"), "0 days 01:00:00"),
        (1 + 2j, "(1+2j)"),
        (Point(), {"x": 1, "y": 0.5}),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}),
        ({np.int64(7): np.int8(1)}, {"7": 1}),
        ({2.5: 1}, {"2.5": 1}),
        ([Color.RED, Level.HIGH], ["red", 3]),
        (Pair(1, math.nan), [1, None]),
        (Box(2), {"size": 2, "_hidden": 1}),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (np.array([0.1], np.float32), [float(np.float32(0.1))]),
        (np.array(["2026-01-02"], "M8[D]"), ["2026-01-02"]),
        ([2**64, -(2**70)], [2**64, -(2**70)]),
        ("a\ud800", "a\ud800"),
    ],
)
def test_m08_values_are_encoded_as_portable_json(value: Any, expected: Any) -> None:
    assert parse_strictly(dumps(value)) == expected
    assert parse_strictly(dumps([value, np.int8(0)])) == [expected, 0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"abc", "an object of type bytes, which JSON does not have: send base64.b64encode(value).decode()"),
        ({"a": {1, 2}}, "an object of type set, which JSON does not have: send sorted(value) or list(value)"),
        ([print], "an object of type builtin_function_or_method"),
        ([Point], "an object of type type"),
    ],
)
def test_m08_values_without_a_json_form_are_rejected(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message.replace("(", r"\(").replace(")", r"\)")):
        dumps(value)


def test_m08_recursive_values_are_rejected() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="holds itself"):
        dumps(loop)
    twice = [1]
    assert parse_strictly(dumps([twice, twice, np.int8(1)])) == [[1], [1], 1], "a repeated value is not a cycle"


def test_m27_nan_is_rejected_by_option() -> None:
    with pytest.raises(ValueError, match="the number nan, which JSON does not have"):
        dumps([math.nan], nan="error")


@pytest.mark.parametrize(
    "value",
    [2**63 - 1, -(2**63), 2**64, 123456789012345678901234567890, -(10**19), 1.5e300, "a\ud800", 10**400, [0.1] * 3],
)
def test_m04_values_are_decoded_unchanged(value: Any) -> None:
    values = loads(json.dumps([value, "x"]).encode())
    assert values == [value, "x"]
    assert type(values[0]) is type(value)


def test_m10_nan_and_other_encodings_are_accepted() -> None:
    assert math.isnan(loads(b"[NaN]")[0])
    assert loads("[1]".encode("utf-16")) == [1]
    with pytest.raises(ValueError, match="Expecting value"):
        loads(b"[x]")


@pytest.mark.parametrize("enabled", [True, False])
def test_m03_large_bodies_leave_the_garbage_collector_enabled(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        assert len(loads(b"[%s]" % b", ".join([b"[1]"] * 30_000))) == 30_000
        with pytest.raises(ValueError, match="Expecting value"):
            loads(b" " * 100_000)
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if before else gc.disable()
