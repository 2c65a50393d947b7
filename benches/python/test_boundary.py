"""The boundary between Rust and Python: the cost of a call without the work of the handler.

    pytest benches/python

Times are reported and never asserted on. `extra_info` has the counters of the server: the time
of the GIL outside the handler, per call of the handler and per row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from penstock import Batching, Tensor, model
from penstock.testing import Client

WIDTH = 16
ROUNDS = 300
PICTURE = (3, 640, 640)


@model(
    inputs=[Tensor("x", np.float32, [WIDTH])],
    outputs=[Tensor("y", np.float32, [WIDTH])],
    batching=Batching(max_size=32),
)
def double(x: Any) -> Any:
    return x * np.float32(2)


@model(
    inputs=[Tensor("x", np.float32, list(PICTURE))],
    outputs=[Tensor("y", np.float32, list(PICTURE))],
    batching=Batching(max_size=1),
)
def hand_back(x: Any) -> Any:
    """Returns the input array, which has to be copied."""
    return x


@model(
    inputs=[Tensor("x", np.float32, [1])],
    outputs=[Tensor("y", np.float32, list(PICTURE))],
    batching=Batching(max_size=1),
)
def make(x: Any) -> Any:
    """Returns a new array, which the server borrows."""
    return np.full((1, *PICTURE), x[0, 0], np.float32)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(double, hand_back, make) as started:
        yield started


def counters(client: Client, name: str) -> dict[str, float]:
    """Counters of a model: seconds by part, calls and rows."""
    text = client.get("/metrics").body.decode()
    found = {}
    for key, metric in {
        "boundary": "boundary_seconds_total",
        "handler": "handler_seconds_total",
        "calls": "batch_size_count",
        "rows": "batch_size_sum",
    }.items():
        line = re.search(rf'^\w*?{metric}{{[^}}]*model="{name}"[^}}]*}} (\S+)$', text, re.MULTILINE)
        if line is None:
            raise LookupError(f"/metrics has no {metric} of model {name!r}")
        found[key] = float(line[1])
    return found


def report(benchmark: BenchmarkFixture, before: dict[str, float], after: dict[str, float]) -> None:
    """Adds the counters of the server to the results of the benchmark."""
    spent = {key: after[key] - before[key] for key in before}
    benchmark.extra_info["handler_calls"] = int(spent["calls"])
    benchmark.extra_info["rows_per_call"] = round(spent["rows"] / spent["calls"], 2)
    benchmark.extra_info["boundary_us_per_call"] = round(spent["boundary"] / spent["calls"] * 1e6, 3)
    benchmark.extra_info["boundary_us_per_row"] = round(spent["boundary"] / spent["rows"] * 1e6, 3)
    benchmark.extra_info["handler_us_per_call"] = round(spent["handler"] / spent["calls"] * 1e6, 3)


@pytest.mark.parametrize("rows", [1, 32])
def test_call(benchmark: BenchmarkFixture, client: Client, rows: int) -> None:
    sent = np.arange(rows * WIDTH, dtype=np.float32).reshape(rows, WIDTH)
    before = counters(client, "double")
    answer = benchmark.pedantic(
        client.infer, args=("double", {"x": sent}), rounds=ROUNDS, iterations=1, warmup_rounds=20
    )
    np.testing.assert_array_equal(answer["y"], sent * 2)
    report(benchmark, before, counters(client, "double"))


def test_rows_of_32_threads(benchmark: BenchmarkFixture, client: Client) -> None:
    def one_row(number: int) -> Any:
        return client.infer("double", {"x": np.full((1, WIDTH), number, np.float32)})["y"]

    with ThreadPoolExecutor(32) as threads:
        before = counters(client, "double")
        answers = benchmark.pedantic(
            lambda: list(threads.map(one_row, range(128))), rounds=20, iterations=1, warmup_rounds=2
        )
    for number, answer in enumerate(answers):
        np.testing.assert_array_equal(answer, np.full((1, WIDTH), number * 2, np.float32))
    report(benchmark, before, counters(client, "double"))


def test_a_picture_handed_back(benchmark: BenchmarkFixture, client: Client) -> None:
    sent = np.random.default_rng(7).random((1, *PICTURE), dtype=np.float32)
    before = counters(client, "hand_back")
    answer = benchmark.pedantic(client.infer, args=("hand_back", {"x": sent}), rounds=50, iterations=1, warmup_rounds=3)
    np.testing.assert_array_equal(answer["y"], sent)
    report(benchmark, before, counters(client, "hand_back"))


def test_a_picture_made(benchmark: BenchmarkFixture, client: Client) -> None:
    sent = np.full((1, 1), 3, np.float32)
    before = counters(client, "make")
    answer = benchmark.pedantic(client.infer, args=("make", {"x": sent}), rounds=50, iterations=1, warmup_rounds=3)
    np.testing.assert_array_equal(answer["y"], np.full((1, *PICTURE), 3, np.float32))
    report(benchmark, before, counters(client, "make"))
