"""M-08: what functions return, as JSON that every reader takes."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from penstock.compat.modelbit._encoding import dumps


class Point:
    def __init__(self) -> None:
        self.x, self.y = 1, np.float32(0.5)


def strictly(text: str) -> Any:
    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "wanted"),
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
    ],
)
def test_m08_values(value: Any, wanted: Any) -> None:
    assert strictly(dumps(value)) == wanted
    assert strictly(dumps([value, np.int8(0)])) == [wanted, 0]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"abc", "an object of type bytes, which JSON does not have: send base64.b64encode(value).decode()"),
        ({"a": {1, 2}}, "an object of type set, which JSON does not have: send sorted(value) or list(value)"),
        ([print], "an object of type builtin_function_or_method"),
        ([Point], "an object of type type"),
    ],
)
def test_m08_what_json_does_not_have(value: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said.replace("(", r"\(").replace(")", r"\)")):
        dumps(value)


def test_m08_what_holds_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="holds itself"):
        dumps(loop)
    twice = [1]
    assert strictly(dumps([twice, twice, np.int8(1)])) == [[1], [1], 1], "twice is no circle"


def test_m27_nan_can_be_an_error() -> None:
    with pytest.raises(ValueError, match="the number nan, which JSON does not have"):
        dumps([math.nan], nan="error")
