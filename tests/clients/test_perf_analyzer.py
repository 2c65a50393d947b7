"""Triton's perf_analyzer, which reads metadata and configuration first, and then measures (case G5)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from http_by_hand import get, metric_at
from serving_process import Serving
from waiting import until


def test_the_configuration_that_it_asks_for(server: Serving) -> None:
    config = get(server.http, "/v2/models/double/config").json()
    assert config["name"] == "double"
    assert config["max_batch_size"] == 8
    # Without the batch axis, as the configuration has it.
    assert [(one["name"], one["data_type"], [int(dim) for dim in one["dims"]]) for one in config["input"]] == [
        ("x", "TYPE_FP32", [4])
    ]
    assert [(one["name"], one["data_type"], [int(dim) for dim in one["dims"]]) for one in config["output"]] == [
        ("y", "TYPE_FP32", [4])
    ]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("rows", [1, 4])
def test_it_runs_to_its_end(
    protocol: str, rows: int, server: Serving, perf_analyzer: Callable[..., Any], tmp_path: Path
) -> None:
    address = server.http.removeprefix("http://") if protocol == "http" else server.grpc
    before = metric_at(server.http, "penstock_requests_total", protocol=protocol, outcome="ok")
    table = tmp_path / "table.csv"
    perf_analyzer(
        *("-m", "double", "-i", protocol, "-u", address, "-b", str(rows), "-f", str(table)),
        *("--concurrency-range", "4", "--measurement-mode", "count_windows", "--measurement-request-count", "200"),
        # It is to end, whatever the machine is busy with.
        *("--stability-percentage", "999", "--max-trials", "5"),
    )
    (row,) = csv.DictReader(table.read_text().splitlines())
    assert float(row["Inferences/Second"]) > 0
    # In microseconds, from the statistics before and after.
    spent = [float(row[f"Server {part}"]) for part in ("Queue", "Compute Input", "Compute Infer", "Compute Output")]
    assert spent[2] > 0
    assert sum(spent) <= float(row["p99 latency"])
    assert metric_at(server.http, "penstock_requests_total", protocol=protocol, outcome="ok") - before >= 200
    assert metric_at(server.http, "penstock_requests_total", outcome="handler") == 0


@pytest.fixture(scope="module")
def counting() -> Iterator[Serving]:
    """models/counting.py, which keeps sequences."""
    with Serving("counting.py", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0") as server:
        yield server


@pytest.mark.trap("T29")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize(
    "load", [("--concurrency-range", "4"), ("--request-rate-range", "100", "--num-of-sequences", "3")]
)
def test_it_drives_sequences_to_their_ends(
    protocol: str, load: tuple[str, ...], counting: Serving, perf_analyzer: Callable[..., Any]
) -> None:
    """T29: it learns from the configuration that the model keeps sequences, and sends their ids as integers."""
    address = counting.http.removeprefix("http://") if protocol == "http" else counting.grpc
    before = metric_at(counting.http, "penstock_requests_total", protocol=protocol, outcome="ok")
    perf_analyzer(
        *("-m", "counting", "-i", protocol, "-u", address, "--sequence-length", "5", *load),
        *("--measurement-mode", "count_windows", "--measurement-request-count", "100"),
        *("--stability-percentage", "999", "--max-trials", "5"),
    )
    assert metric_at(counting.http, "penstock_requests_total", protocol=protocol, outcome="ok") - before >= 100
    assert metric_at(counting.http, "penstock_requests_total", outcome="invalid_input") == 0
    assert metric_at(counting.http, "penstock_requests_total", outcome="overloaded") == 0
    until(lambda: metric_at(counting.http, "penstock_sequences") == 0, "the ends of all sequences")


@pytest.fixture(scope="module")
def sharing() -> Iterator[Serving]:
    """As `server`, with shared memory for local clients."""
    addresses = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    with Serving("double.py", *addresses, "--shared-memory", "local") as server:
        yield server


@pytest.mark.trap("T55")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_it_runs_over_shared_memory(
    protocol: str, sharing: Serving, perf_analyzer: Callable[..., Any], tmp_path: Path
) -> None:
    # It unregisters CUDA regions too, whether there is a GPU or not (T55).
    address = sharing.http.removeprefix("http://") if protocol == "http" else sharing.grpc
    before = metric_at(sharing.http, "penstock_requests_total", protocol=protocol, outcome="ok")
    table = tmp_path / "table.csv"
    perf_analyzer(
        *("-m", "double", "-i", protocol, "-u", address, "-b", "4", "-f", str(table)),
        *("--shared-memory", "system", "--output-shared-memory-size", "64"),
        *("--concurrency-range", "4", "--measurement-mode", "count_windows", "--measurement-request-count", "200"),
        *("--stability-percentage", "999", "--max-trials", "5"),
    )
    (row,) = csv.DictReader(table.read_text().splitlines())
    assert float(row["Inferences/Second"]) > 0
    assert metric_at(sharing.http, "penstock_requests_total", protocol=protocol, outcome="ok") - before >= 200
    assert metric_at(sharing.http, "penstock_requests_total", outcome="invalid_input") == 0
    assert get(sharing.http, "/v2/systemsharedmemory/status").json() == [], "it leaves nothing behind"
