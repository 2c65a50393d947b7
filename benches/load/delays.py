"""Comparison of the default batching delay with fixed delays.

    python -m benches.load.delays --seconds 4 --repeats 3

One server has a model for each rule, over simulated accelerators that take b + a n milliseconds for n rows. For each
cost, number of instances, kind of arrivals and load, the rules take turns under identical arrivals. Prints mean and
p99 in milliseconds, and the default's mean over that of the best fixed delay, which differs from row to row.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benches.load import loader
from benches.load.machine import ROOT, provenance
from benches.load.processes import Processes, free_ports
from benches.load.systems import SERVERS

MAX_BATCH = 32
DELAYS_MS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
RULES = ("default", *(f"fixed-{delay:g}" for delay in DELAYS_MS))
LOADS = (0.02, 0.1, 0.3, 0.6, 0.9)
CONNECTIONS = 1000


@dataclass(frozen=True)
class Cell:
    """One row of the table."""

    call_ms: float
    row_ms: float
    instances: int
    arrivals: str
    load: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        full = MAX_BATCH / (self.call_ms + self.row_ms * MAX_BATCH) * 1000
        return self.load * full * self.instances


@contextmanager
def serving(call_ms: float, row_ms: float, instances: int) -> Iterator[str]:
    """Runs a server with all rules and yields its address."""
    (port,) = free_ports(1)
    environment = {
        "BENCH_PORT": str(port),
        "BENCH_WORKERS": str(instances),
        "BENCH_MAX_BATCH": str(MAX_BATCH),
        "BENCH_COST_MS": f"{call_ms},{row_ms}",
        "BENCH_DELAYS_MS": ",".join(map(str, DELAYS_MS)),
    }
    command = [sys.executable, str(SERVERS / "penstock_delays.py")]
    server = Processes(command, environment=environment, log=ROOT / "bench-data" / "logs" / "delays.log")
    try:
        server.until_ready(f"http://127.0.0.1:{port}/v2/health/ready", 30)
        yield f"127.0.0.1:{port}"
    finally:
        server.stop()


def measure(address: str, rule: str, cell: Cell, body: Path, seconds: float) -> tuple[float, float]:
    """Mean and p99 in milliseconds."""
    call = loader.Call("http", address, f"/v2/models/{rule}/infer", body, (), timeout=5, arrivals=cell.arrivals)
    counts = loader.load(call, connections=CONNECTIONS, seconds=seconds, warm_up=0.5, rate=cell.rate)
    if counts["errors"]:
        raise RuntimeError(f"{rule}: {counts['codes']} {counts['first_error']}")
    return counts["mean_us"] / 1000, counts["p99_us"] / 1000


def row(cell: Cell, found: dict[str, list[tuple[float, float]]]) -> str:
    """One line of Markdown: mean / p99 of each rule, and the default's share of the best."""
    middle = {rule: tuple(median(turn[index] for turn in turns) for index in (0, 1)) for rule, turns in found.items()}
    best = min(middle[rule][0] for rule in RULES[1:])
    cells = [f"{middle[rule][0]:.2f} / {middle[rule][1]:.1f}" for rule in RULES]
    head = f"| {cell.call_ms:g} + {cell.row_ms:g} n | {cell.instances} | {cell.arrivals} | {cell.load:.0%} |"
    return f"{head} {' | '.join(cells)} | {middle['default'][0] / best:.2f} |"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benches.load.delays", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--costs", default="5+0.1,2+1", help="b+a in milliseconds")
    parser.add_argument("--instances", default="1,4")
    parser.add_argument("--arrivals", default="poisson")
    options = parser.parse_args()
    loader.build()
    body = ROOT / "bench-data" / "bodies" / "delays.json"
    body.parent.mkdir(parents=True, exist_ok=True)
    body.write_text('{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[1]}]}', encoding="utf-8")
    about = provenance()
    print(f"{about['machine']}; commit {about['commit']}; {about['date']}; mean / p99, ms\n", flush=True)
    print(f"| batch, ms | instances | arrivals | load | {' | '.join(RULES)} | default over the best fixed |")
    print(f"|---|--:|---|--:|{'--:|' * (len(RULES) + 1)}", flush=True)
    costs = [tuple(map(float, cost.split("+"))) for cost in options.costs.split(",")]
    for (call_ms, row_ms), instances in itertools.product(costs, map(int, options.instances.split(","))):
        with serving(call_ms, row_ms, instances) as address:
            for arrivals, load in itertools.product(options.arrivals.split(","), LOADS):
                cell = Cell(call_ms, row_ms, instances, arrivals, load)
                found: dict[str, list[tuple[float, float]]] = {rule: [] for rule in RULES}
                for _, rule in itertools.product(range(options.repeats), RULES):
                    found[rule].append(measure(address, rule, cell, body, options.seconds))
                print(row(cell, found), flush=True)


if __name__ == "__main__":
    main()
