"""Triton's perf_analyzer, which reads metadata and configuration before it measures (case G5)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from http_by_hand import get, metric_at
from serving_process import Serving
from waiting import until


def test_config_has_the_fields_that_perf_analyzer_reads(server: Serving) -> None:
    config = get(server.http, "/v2/models/double/config").json()
    assert config["name"] == "double"
    assert config["max_batch_size"] == 8
    # Dims of a configuration omit the batch axis.
    assert [(one["name"], one["data_type"], [int(dim) for dim in one["dims"]]) for one in config["input"]] == [
        ("x", "TYPE_FP32", [4])
    ]
    assert [(one["name"], one["data_type"], [int(dim) for dim in one["dims"]]) for one in config["output"]] == [
        ("y", "TYPE_FP32", [4])
    ]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("rows", [1, 4])
def test_perf_analyzer_completes(
    protocol: str, rows: int, server: Serving, perf_analyzer: Callable[..., Any], tmp_path: Path
) -> None:
    address = server.http.removeprefix("http://") if protocol == "http" else server.grpc
    before = metric_at(server.http, "penstock_requests_total", protocol=protocol, outcome="ok")
    table = tmp_path / "table.csv"
    perf_analyzer(
        *("-m", "double", "-i", protocol, "-u", address, "-b", str(rows), "-f", str(table)),
        *("--concurrency-range", "4", "--measurement-mode", "count_windows", "--measurement-request-count", "200"),
        # Completes on a busy machine too.
        *("--stability-percentage", "999", "--max-trials", "5"),
    )
    (row,) = csv.DictReader(table.read_text().splitlines())
    assert float(row["Inferences/Second"]) > 0
    # In microseconds, from the statistics before and after.
    durations = [float(row[f"Server {part}"]) for part in ("Queue", "Compute Input", "Compute Infer", "Compute Output")]
    assert durations[2] > 0
    assert sum(durations) <= float(row["p99 latency"])
    assert metric_at(server.http, "penstock_requests_total", protocol=protocol, outcome="ok") - before >= 200
    assert metric_at(server.http, "penstock_requests_total", outcome="handler") == 0


@pytest.fixture(scope="module")
def counting() -> Iterator[Serving]:
    """Server of models/counting.py, a model with sequences."""
    with Serving("counting.py", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0") as server:
        yield server


@pytest.mark.trap("T29")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize(
    "load", [("--concurrency-range", "4"), ("--request-rate-range", "100", "--num-of-sequences", "3")]
)
def test_perf_analyzer_completes_sequences(
    protocol: str, load: tuple[str, ...], counting: Serving, perf_analyzer: Callable[..., Any]
) -> None:
    """T29: sequence batching in the configuration makes it send sequences, with integers as ids."""
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
    """Server of models/double.py with shared memory for local clients."""
    addresses = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    with Serving("double.py", *addresses, "--shared-memory", "local") as server:
        yield server


@pytest.mark.trap("T55")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_perf_analyzer_completes_over_shared_memory(
    protocol: str, sharing: Serving, perf_analyzer: Callable[..., Any], tmp_path: Path
) -> None:
    # perf_analyzer unregisters CUDA regions even without a GPU (T55).
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
    assert get(sharing.http, "/v2/systemsharedmemory/status").json() == [], "perf_analyzer unregisters its regions"
