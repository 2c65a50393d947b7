"""Triton's clients and perf_analyzer on streams, sync and async (cases G3 and G5)."""

from __future__ import annotations

import asyncio
import csv
import queue
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio

from http_by_hand import metric_at
from serving_process import Serving


@pytest.fixture(scope="module")
def streams() -> Iterator[Serving]:
    """Server of models/streams.py."""
    with Serving("streams.py", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0") as server:
        yield server


def inputs(value: int) -> list[Any]:
    tensor = triton.InferInput("n", [1], "INT32")
    tensor.set_data_from_numpy(np.array([value], np.int32))
    return [tensor]


def test_triton_stream_of_several_models(streams: Serving) -> None:
    responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with triton.InferenceServerClient(streams.grpc) as client:
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        client.async_stream_infer("stream3", inputs(5), request_id="a", enable_empty_final_response=True)
        results = [responses.get(timeout=20)[0] for _ in range(4)]
        assert [result.as_numpy("i")[0] for result in results[:3]] == [5, 6, 7]
        last = results[3].get_response()
        assert (last.id, last.parameters["triton_final_response"].bool_param, len(last.outputs)) == ("a", True, 0)
        client.async_stream_infer("stream_err", inputs(1), request_id="b")
        assert [responses.get(timeout=20)[1] for _ in range(2)] == [None, None]
        _, error = responses.get(timeout=20)
        assert "the third chunk is missing" in str(error)
        client.async_stream_infer("stream1", inputs(9), request_id="c")
        assert responses.get(timeout=20)[0].as_numpy("i")[0] == 9
        client.stop_stream()


def test_triton_stream_cancellation_frees_the_instance(streams: Serving) -> None:
    responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with triton.InferenceServerClient(streams.grpc) as client:
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        client.async_stream_infer("endless", inputs(1))
        assert responses.get(timeout=20)[0].as_numpy("i")[0] == 1
        client.stop_stream(cancel_requests=True)
    # The instance is free again.
    with triton.InferenceServerClient(streams.grpc) as client:
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        client.async_stream_infer("endless", inputs(2), request_id="again")
        while (response := responses.get(timeout=20)[0]) is None or response.get_response().id != "again":
            pass
        client.stop_stream(cancel_requests=True)


def test_triton_async_stream(streams: Serving) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        for number in range(3):
            yield {"model_name": "stream3", "inputs": inputs(10 * number), "request_id": str(number)}

    async def run() -> list[tuple[str, int]]:
        async with triton_aio.InferenceServerClient(streams.grpc) as client:
            results = []
            async for result, error in client.stream_infer(requests()):
                assert error is None
                results.append((result.get_response().id, int(result.as_numpy("i")[0])))
            return results

    results = asyncio.run(run())
    for number in range(3):
        assert [value for name, value in results if name == str(number)] == [10 * number + i for i in range(3)]


@pytest.mark.parametrize(
    "load",
    [
        ("--streaming", "--async", "--concurrency-range", "4"),
        ("--streaming", "--async", "--request-rate-range", "100"),
    ],
)
def test_perf_analyzer_reads_decoupled_streams(
    load: tuple[str, ...], streams: Serving, perf_analyzer: Callable[..., Any], tmp_path: Path
) -> None:
    table = tmp_path / "table.csv"
    perf_analyzer(
        *("-m", "stream3", "-i", "grpc", "-u", streams.grpc, "-f", str(table), *load),
        *("--measurement-mode", "count_windows", "--measurement-request-count", "100"),
        *("--stability-percentage", "999", "--max-trials", "5"),
    )
    (row,) = csv.DictReader(table.read_text().splitlines())
    assert float(row["Inferences/Second"]) > 0
    assert metric_at(streams.http, "penstock_requests_total", model="stream3", outcome="ok") >= 100


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("load", [("--async", "--concurrency-range", "8"), ("--request-rate-range", "200")])
def test_perf_analyzer_async_and_at_a_request_rate(
    protocol: str, load: tuple[str, ...], server: Serving, perf_analyzer: Callable[..., Any]
) -> None:
    address = server.http.removeprefix("http://") if protocol == "http" else server.grpc
    before = metric_at(server.http, "penstock_requests_total", protocol=protocol, outcome="ok")
    perf_analyzer(
        *("-m", "double", "-i", protocol, "-u", address, *load),
        *("--measurement-mode", "count_windows", "--measurement-request-count", "200"),
        *("--stability-percentage", "999", "--max-trials", "5"),
    )
    assert metric_at(server.http, "penstock_requests_total", protocol=protocol, outcome="ok") - before >= 200
