"""`penstock bench` against real servers: its counts are the server's, its files are complete."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import Batching, Client, Overloaded, Server, Tensor, Threads, model
from penstock._cli.main import main

SHORT = ("--warmup", "0", "--requests", "60")
X = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}


@model(**X)
def flaky(x: Any) -> Any:
    if x[0] < 0:
        raise Overloaded("no room")
    return x


@model(**X, instances=Threads(1))
def queueing(x: Any) -> Any:
    time.sleep(0.02)
    return x


@model(**X, batching=Batching(8), instances=Threads(1))
def batched(x: Any) -> Any:
    time.sleep(0.005)
    return x


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(flaky, queueing, batched, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


def bench(*arguments: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """Exit status and result."""
    status = main(["bench", *arguments, "--json", str(folder / "result.json")])
    return status, json.loads((folder / "result.json").read_text())


def counts(url: str, name: str) -> tuple[int, int]:
    """Successful and failed requests of a model, by its server."""
    with Client(url) as client:
        [statistics] = client.statistics(name)["model_stats"]
    return tuple(int(statistics["inference_stats"][part]["count"]) for part in ("success", "fail"))  # type: ignore[return-value]


def test_counts_are_those_of_the_server(url: str, tmp_path: Path) -> None:
    before = counts(url, "double")
    status, result = bench(url, "double", "--concurrency", "1,8", "--warmup", "0.05", *SHORT[2:], folder=tmp_path)
    assert status == 0
    sent = 0
    for step, concurrency in zip(result["steps"], (1, 8), strict=True):
        [one] = step["rounds"]
        assert (step["concurrency"], one["requests"], one["succeeded"], one["failed"]) == (concurrency, 60, 60, 0)
        # Of the measurement alone: the warm-up is not in it.
        assert (one["server"]["succeeded"], one["server"]["failed"], one["server"]["rows"]) == (60, 0, 60)
        assert sum(size * calls for size, calls in one["server"]["batch_sizes"]) == 60
        assert sum(count for *_, count in one["histogram_ms"]) == 60
        assert one["throughput"] == pytest.approx(60 / one["seconds"])
        latency = one["latency_ms"]
        assert 0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
        assert sum(one["server"]["split_ms"].values()) <= latency["mean"]
        sent += 60
    assert counts(url, "double")[0] - before[0] >= sent


def test_batches_are_counted_by_size(server: Server, tmp_path: Path) -> None:
    status, result = bench(server.http_url, "batched", "x=[[1, 2]]", "--concurrency", "8", *SHORT, folder=tmp_path)
    part = result["steps"][0]["rounds"][0]["server"]
    assert (status, part["succeeded"], part["rows"]) == (0, 60, 60)
    assert part["executions"] == sum(calls for _, calls in part["batch_sizes"]) < 60
    assert part["mean_batch"] == pytest.approx(60 / part["executions"])


@pytest.mark.parametrize("input_format", ["binary", "json", "plain"])
def test_inputs_are_sent_in_each_format(input_format: str, server: Server, tmp_path: Path) -> None:
    before = counts(server.http_url, "flaky")
    arguments = (server.http_url, "flaky", "x=[1, 2]", "--input-format", input_format, "--validate", *SHORT)
    status, result = bench(*arguments, folder=tmp_path)
    assert (status, result["steps"][0]["rounds"][0]["succeeded"]) == (0, 60)
    # One more, before the load.
    assert counts(server.http_url, "flaky") == (before[0] + 61, before[1])


def test_example_of_the_model_is_sent_without_inputs(url: str, tmp_path: Path) -> None:
    for name in ("double", "same_BF16", "same_BYTES", "arithmetic", "upper", "add"):
        status, result = bench(url, name, "--validate", "--warmup", "0", "--requests", "4", folder=tmp_path)
        assert (status, result["steps"][0]["rounds"][0]["succeeded"]) == (0, 4), name


def test_errors_are_counted_by_kind_with_the_first_message(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [value]}]} for value in (1, -1, -2)]
    file = tmp_path / "requests.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    for url, code in ((server.http_url, 429), (f"grpc://{server.grpc_address}", 8)):
        status, result = bench(url, "flaky", "--request", str(file), *SHORT, folder=tmp_path)
        [one] = result["steps"][0]["rounds"]
        assert (status, one["succeeded"], one["failed"], one["server"]["failed"]) == (1, 20, 40, 40)
        assert one["errors"] == [{"kind": "overloaded", "status": code, "count": 40, "first": "no room"}]
        assert f"concurrency 1: 40 overloaded ({code}): no room" in capsys.readouterr().out
        assert bench(url, "flaky", "--request", str(file), *SHORT, "--allow-errors", folder=tmp_path)[0] == 0


def test_open_loop_keeps_its_rate(server: Server, tmp_path: Path) -> None:
    for more in ((), ("--arrivals", "poisson", "--seed", "3", "--threads", "2")):
        arguments = (server.http_url, "flaky", "x=[1]", "--rate", "400", "--warmup", "0", "--seconds", "1", *more)
        status, result = bench(*arguments, folder=tmp_path)
        [one] = result["steps"][0]["rounds"]
        # Scheduled ones, sent or not: how many does not depend on the machine.
        scheduled = one["requests"] + one["unsent"]
        assert status == 0
        assert scheduled == 400 if not more else 300 < scheduled < 500


def test_open_loop_shows_the_queue_of_a_slow_server(server: Server, tmp_path: Path) -> None:
    # A handler of 20 ms responds to 50 a second at most. The last of 30 is scheduled after 0.15 s, and done after 0.6.
    arguments = ("queueing", "x=[1]", "--rate", "200", "--warmup", "0", "--requests", "30")
    for more in ((), ("--max-in-flight", "1")):
        status, result = bench(server.http_url, *arguments, *more, folder=tmp_path)
        [one] = result["steps"][0]["rounds"]
        assert (status, one["succeeded"], one["unsent"]) == (0, 30, 0)
        assert one["latency_ms"]["max"] >= 450
    # With one in flight the requests wait at the client, which says so.
    assert one["late"] >= 28
    assert one["server"]["split_ms"]["queue"] < 50


def test_result_has_all_keys(server: Server, tmp_path: Path) -> None:
    arguments = (server.http_url, "flaky", "x=[1]", "--repeat", "3", "--percentiles", "99.9,50", *SHORT)
    status, result = bench(*arguments, folder=tmp_path)
    assert status == 0
    assert set(result) == {
        *("format", "started", "url", "model", "model_version", "server", "client", "loop", "settings"),
        *("percentiles", "steps", "stopped"),
    }
    assert (result["format"], result["loop"], result["stopped"]) == ("penstock-bench/1", "closed", False)
    assert result["percentiles"] == [50, 99.9]
    assert (result["settings"]["repeat"], result["settings"]["requests"]) == (3, 60)
    [step] = result["steps"]
    assert set(step) == {
        *("concurrency", "rate", "median", "range", "failed", "unsent", "late", "rounds"),
    }
    assert set(step["median"]) == {"throughput", "mean", "min", "p50", "p99.9", "max"} == set(step["range"])
    throughputs = [one["throughput"] for one in step["rounds"]]
    assert len(throughputs) == 3
    assert step["median"]["throughput"] == sorted(throughputs)[1]
    assert step["range"]["throughput"] == [min(throughputs), max(throughputs)]
    assert {frozenset(one) for one in step["rounds"]} == {
        frozenset(
            {
                *("seconds", "requests", "succeeded", "failed", "throughput", "latency_ms", "histogram_ms"),
                *("response_bytes", "response_sizes", "errors", "late", "unsent", "server"),
            }
        )
    }


def test_table_has_a_row_for_each_step(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", server.http_url, "flaky", "x=[1]", "--concurrency", "1:4", *SHORT]) == 0
    title, header, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith(f"model flaky at {server.http_url} (penstock ")
    assert "closed loop; 60 requests a step, after 0 s of warm-up" in title
    columns = ["concurrency", "req/s", "p50 ms", "p90 ms", "p99 ms", "max ms", "errors", "queue ms", "compute ms"]
    assert header.split() == [*" ".join(columns).split(), "batch"]
    assert [row.split()[0] for row in rows] == ["1", "2", "4"]
    assert all(len(row) == len(header) and len(row.split()) == 10 for row in rows)


def test_standard_output_may_be_the_result(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", server.http_url, "flaky", "x=[1]", "--json", "-", *SHORT]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["steps"][0]["rounds"][0]["succeeded"] == 60
    assert "req/s" in err


def test_results_are_compared(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (server.http_url, "flaky", "x=[1]", "--repeat", "2", *SHORT)
    _, old = bench(*arguments, "--concurrency", "1,2", folder=tmp_path)
    for step in old["steps"]:
        step["median"]["throughput"] *= 2
        step["range"]["throughput"] = [value * 1e6 for value in step["range"]["throughput"]]
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps(old))
    status, new = bench(*arguments, "--concurrency", "2,3", "--compare", str(earlier), folder=tmp_path)
    assert status == 0
    [compared] = new["comparison"]
    figure = compared["figures"]["throughput"]
    assert (compared["concurrency"], compared["rate"]) == (2, None)
    assert figure["ratio"] == pytest.approx(
        new["steps"][0]["median"]["throughput"] / old["steps"][1]["median"]["throughput"]
    )
    assert figure["overlaps"] is False
    out = capsys.readouterr().out
    assert f"compared with {earlier}, new / old" in out
    assert f"{figure['ratio']:.3f}" in out
    _, single = bench(*arguments[:3], "--concurrency", "2", "--compare", str(earlier), *SHORT, folder=tmp_path)
    assert single["comparison"][0]["figures"]["p50"]["overlaps"] is None
    assert "single rounds have no range" in capsys.readouterr().out
    bench(*arguments, "--concurrency", "7", "--compare", str(earlier), folder=tmp_path)
    assert f"{earlier} has none of these steps" in capsys.readouterr().out
