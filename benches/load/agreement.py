"""`penstock bench`, perf_analyzer and ghz on the same model of one server, in turns.

    python -m benches.load.agreement HTTP_ADDRESS GRPC_ADDRESS MODEL --shape 1,4

The model has one FP32 input `x` of that shape. The tools are those that
`python tests/clients/setup_tools.py perf_analyzer ghz` installs.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

REPOSITORY = Path(__file__).parents[2]
TOOLS = Path(os.environ.get("PENSTOCK_TEST_TOOLS", REPOSITORY / ".tools")) / "bin"
CALL = "inference.GRPCInferenceService.ModelInfer"

Figures = tuple[float, float, float]
"""Responses per second, median and 99th percentile of latency in milliseconds."""


class Tools:
    """The tools with the arguments that all of them share."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.file = str(folder / "result")
        self.shape = [int(size) for size in options.shape.split(",")]

    def bench(self, scheme: str, address: str, concurrency: str) -> Figures:
        """`penstock bench`."""
        options = self.options
        arguments = ["--concurrency", concurrency, "--seconds", str(options.seconds), "--json", self.file]
        run([sys.executable, "-m", "penstock", "bench", f"{scheme}://{address}", options.model, *arguments])
        figures = json.loads(Path(self.file).read_text())["steps"][0]["median"]
        return figures["throughput"], figures["p50"], figures["p99"]

    def perf_analyzer(self, protocol: str, address: str, concurrency: str) -> Figures:
        """Triton's perf_analyzer."""
        options = self.options
        arguments = ["-m", options.model, "-i", protocol, "-u", address, "-b", "1", "--concurrency-range", concurrency]
        limits = ["--measurement-interval", str(options.seconds * 1000), "--percentile", "50", "-f", self.file]
        run([str(TOOLS / "perf_analyzer"), *arguments, *limits, "--stability-percentage", "999", "--max-trials", "3"])
        [row] = csv.DictReader(Path(self.file).read_text().splitlines())
        return float(row["Inferences/Second"]), float(row["p50 latency"]) / 1e3, float(row["p99 latency"]) / 1e3

    def ghz(self, address: str, concurrency: str) -> Figures:
        """The load generator ghz."""
        count = 1
        for size in self.shape:
            count *= size
        tensor = {"name": "x", "datatype": "FP32", "shape": self.shape, "contents": {"fp32_contents": [1] * count}}
        data = json.dumps({"model_name": self.options.model, "inputs": [tensor]})
        proto = ["--insecure", "--proto", str(REPOSITORY / "proto" / "open_inference.proto"), "--call", CALL]
        load = ["-z", f"{self.options.seconds}s", "-c", concurrency, "--connections", "1", "-O", "json", "-d", data]
        report = json.loads(run([str(TOOLS / "ghz"), *proto, *load, address]))
        latency = {one["percentage"]: one["latency"] / 1e6 for one in report["latencyDistribution"]}
        return report["rps"], latency[50], latency[99]


def run(command: list[str]) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command[0]}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout


def main() -> int:
    """Prints a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("http")
    parser.add_argument("grpc")
    parser.add_argument("model")
    parser.add_argument("--shape", default="1,4")
    parser.add_argument("--concurrency", default="1,4,16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    print("| concurrency | tool | req/s | range | p50 ms | p99 ms |\n|--:|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(options, Path(folder))
        calls: dict[str, Callable[[str], Figures]] = {
            "penstock bench, REST": lambda one: tools.bench("http", options.http, one),
            "perf_analyzer, REST": lambda one: tools.perf_analyzer("http", options.http, one),
            "penstock bench, gRPC": lambda one: tools.bench("grpc", options.grpc, one),
            "perf_analyzer, gRPC": lambda one: tools.perf_analyzer("grpc", options.grpc, one),
            "ghz, gRPC": lambda one: tools.ghz(options.grpc, one),
        }
        for concurrency in options.concurrency.split(","):
            rounds = [{name: call(concurrency) for name, call in calls.items()} for _ in range(options.rounds)]
            for name in calls:
                rates = [one[name][0] for one in rounds]
                p50, p99 = (median(one[name][place] for one in rounds) for place in (1, 2))
                span = f"{min(rates):,.0f}-{max(rates):,.0f}"
                print(f"| {concurrency} | {name} | {median(rates):,.0f} | {span} | {p50:.3f} | {p99:.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
