"""Batches and concurrent requests: I-18, I-19, I-25."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from inferless_apps import app_class, served, tensor, write_app

from waiting import at_once

SCHEMA = (
    'INPUT_SCHEMA = {"x": {"datatype": "STRING", "shape": [1], "example": ["a"]}}\nBATCH_SIZE = 4\nBATCH_WINDOW = 600\n'
)
MANY = app_class(
    """
    def infer(self, inputs):
        assert type(inputs) is list, type(inputs)
        return [{"y": one["x"].upper(), "count": len(inputs)} for one in inputs]
    """
)


def text_tensor(text: str, *shape: int) -> dict[str, Any]:
    return tensor("x", "BYTES", [text], list(shape) or [1])


def test_i18_concurrent_requests_share_a_call(tmp_path: Path) -> None:
    with served(write_app(tmp_path, MANY, SCHEMA)) as api:
        results = [one.result() for one in at_once([lambda t=text: api.outputs(text_tensor(t)) for text in "abcd"])]
    assert [one["y"][2] for one in results] == [["A"], ["B"], ["C"], ["D"]]
    assert [one["count"][2] for one in results] == [[4]] * 4


def test_i18_expired_window_computes_the_waiting_requests(tmp_path: Path) -> None:
    with served(write_app(tmp_path, MANY, SCHEMA)) as api:
        start = time.monotonic()
        assert api.outputs(text_tensor("a"))["count"][2] == [1]
        elapsed = time.monotonic() - start
    # The window is 0.6 s; a busy machine adds some.
    assert 0.48 <= elapsed < 3


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_i19_row_axis_is_optional(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with served(write_app(tmp_path, MANY, SCHEMA.replace("600", "1"))) as api:
        assert api.outputs(text_tensor("a", *shape))["y"] == ("BYTES", list(shape), ["A"])


def test_i19_schema_may_declare_the_row_axis(tmp_path: Path) -> None:
    schema = SCHEMA.replace("[1]", "[1, 1]").replace("600", "1")
    with served(write_app(tmp_path, MANY, schema)) as api:
        assert api.outputs(text_tensor("a", 1, 1))["y"][2] == ["A"]


def test_i19_rows_of_a_request_become_dicts(tmp_path: Path) -> None:
    with served(write_app(tmp_path, MANY, SCHEMA.replace("600", "1"))) as api:
        outputs = api.outputs(tensor("x", "BYTES", ["a", "b", "c"], [3, 1]))
    assert outputs == {"y": ("BYTES", [3, 1], ["A", "B", "C"]), "count": ("INT64", [3, 1], [3, 3, 3])}


def test_i19_results_may_have_different_keys(tmp_path: Path) -> None:
    app = app_class(
        "def infer(self, inputs): return [{'error': 'bad'} if one['x'] == 'b' else {'y': 1} for one in inputs]"
    )
    with served(write_app(tmp_path, app, SCHEMA)) as api:
        results = [one.result() for one in at_once([lambda t=text: api.outputs(text_tensor(t)) for text in "abcd"])]
    assert [list(one) for one in results] == [["y"], ["error"], ["y"], ["y"]]


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ("inputs[1:]", "infer returned 0 answers for 1 requests"),
        ("{'y': 1}", "infer returned a dict, expected a list of 1 dicts"),
        ("[3]", "infer returned a int, expected a dict of outputs by name"),
    ],
)
def test_i19_wrong_number_of_results_fails_the_batch(tmp_path: Path, result: str, problem: str) -> None:
    with served(
        write_app(tmp_path, app_class(f"def infer(self, inputs): return {result}"), SCHEMA.replace("600", "1"))
    ) as api:
        assert api.error_of(text_tensor("a")) == (500, problem)


def test_i19_exceptions_fail_the_batch_and_invalid_requests_only_themselves(tmp_path: Path) -> None:
    app = app_class(
        "def infer(self, inputs):\n    if any(one['x'] == 'b' for one in inputs): raise ValueError('dark')\n"
        "    return [{'y': len(inputs)} for _ in inputs]"
    )
    with served(write_app(tmp_path, app, SCHEMA)) as api:
        results = [one.result() for one in at_once([lambda t=text: api.error_of(text_tensor(t)) for text in "abab"])]
        assert results == [(500, "infer failed: ValueError: dark")] * 4
        calls = [lambda: api.infer(text_tensor("a")), lambda: api.infer(tensor("z", "BYTES", "a"))] * 2
        statuses = sorted(one.result().status for one in at_once(calls))
        assert statuses == [200, 200, 400, 400]


SHARED = """
def initialize(self):
    import threading
    self.now, self.most, self.lock = 0, 0, threading.Lock()
def {word}:
    with self.lock:
        self.now += 1
        self.most = max(self.most, self.now)
    {wait}
    with self.lock:
        self.now -= 1
    return {{"most": self.most}}
"""
PLAIN = SHARED.format(word="infer(self, inputs)", wait="time.sleep(0.1)")
ASYNC = SHARED.format(word="infer(self, inputs)", wait="import asyncio; await asyncio.sleep(0.1)").replace(
    "def infer", "async def infer"
)


@pytest.mark.parametrize(
    ("body", "options", "most"),
    [
        (PLAIN, {}, 1),
        (PLAIN, {"container_concurrency": 4}, 1),
        (PLAIN, {"threads": 4}, 4),
        (ASYNC, {}, 1),
        (ASYNC, {"container_concurrency": 4}, 4),
    ],
    ids=["plain", "plain queues", "on threads", "async", "async at once"],
)
def test_i25_concurrency_is_limited_by_option(tmp_path: Path, body: str, options: dict[str, Any], most: int) -> None:
    with served(write_app(tmp_path, app_class(body)), **options) as api:
        results = [one.result()[0] for one in at_once([api.data] * 9)]
    # The first request may run alone, before the others arrive.
    assert max(results) == most


def test_i25_failing_request_does_not_affect_others(tmp_path: Path) -> None:
    app = app_class(
        "async def infer(self, inputs):\n    if inputs.get('x'): raise ValueError('dark')\n    return {'y': 1}"
    )
    with served(write_app(tmp_path, app), container_concurrency=4) as api:
        calls = [api.infer, lambda: api.infer(tensor("x", "BYTES", "a"))] * 3
        assert sorted(one.result().status for one in at_once(calls)) == [200] * 3 + [500] * 3
