"""Penstock under load: throughput as a share of the device's own, batches and their sizes, utilisation."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from benches.gpu.device import own_rate
from benches.gpu.load import check, first_rate, measure, written
from benches.gpu.network import CLASSES, SHAPE, images
from benches.gpu.report import Report
from benches.load import loader
from benches.load.dialects import Sent, request
from benches.load.processes import Processes, free_ports
from benches.load.systems import GRPC_PATH

_SHOWN = 6
"""Batch sizes that are printed for each load; results.json has all."""


class Load(NamedTuple):
    """One load."""

    model: str
    wire: str
    clients: int

    @property
    def datatype(self) -> str:
        """Datatype of the model's images."""
        return "FP16" if self.model.startswith("fp16") else "UINT8"

    @property
    def group(self) -> str:
        """Models of a group share a server. Graphs have their own: a failed capture leaves CUDA unusable there."""
        return "graphed" if self.model.startswith("graphed") else "others"


@dataclass(frozen=True)
class Statistics:
    """Counters of a model."""

    rows: int
    queue_ns: int
    busy_seconds: float
    """Time with the GIL held at the boundary, and processor time of the threads that run handlers."""
    batches: dict[int, tuple[int, int]]
    """Number of batches of each size, and nanoseconds in the handler."""

    def since(self, before: Statistics) -> Statistics:
        """Differences from an earlier state."""
        batches = {}
        for size, (count, spent) in self.batches.items():
            earlier, earlier_spent = before.batches.get(size, (0, 0))
            if count > earlier:
                batches[size] = (count - earlier, spent - earlier_spent)
        return Statistics(
            self.rows - before.rows, self.queue_ns - before.queue_ns, self.busy_seconds - before.busy_seconds, batches
        )


_LOADS = tuple(
    Load(*one)
    for one in (
        ("plain-1", "bin", 64),
        ("sized-1", "bin", 64),
        ("graphed-1", "bin", 64),
        ("graphed-2", "bin", 64),
        ("sized-2", "bin", 64),
        ("graphed-2", "bin", 256),
        ("sized-2", "bin", 256),
        ("plain-2", "bin", 64),
        ("graphed-1", "bin", 256),
        ("graphed-2", "grpc", 64),
        ("sized-1", "bin", 256),
        ("warmed-1", "bin", 64),
    )
)
"""In the order of their value."""


def run(report: Report) -> None:
    """Measures the loads."""
    run_loads(report, _LOADS)


def run_loads(report: Report, loads: Iterable[Load]) -> None:
    """Starts the servers at once, and sends each load to its own."""
    loader.build()
    groups: dict[str, list[Load]] = {}
    for one in loads:
        groups.setdefault(one.group, []).append(one)
    servers = {group: _Server(report, group, {one.model for one in own}) for group, own in groups.items()}
    try:
        for group, server in servers.items():
            report.attempt(f"server of {group}", server.until_ready)
        columns = ("first 3 s", "req/s", "/device", "p50 ms", "p99 ms", "errors", "batch", "sizes", "queue ms")
        used = ("ms/batch", "CPU s/s", "cores", "GPU %", "W", "MHz")
        report.table("Penstock, Batching(max_size=64)", "model    ", "wire", "clients", *columns, *used)
        for one in loads:
            server = servers[one.group]
            if server.is_ready:
                report.attempt(
                    f"{one.model} {one.wire} {one.clients}", lambda one=one, at=server: _load(report, at, one)
                )
    finally:
        for server in servers.values():
            server.processes.stop()


class _Server:
    """A process with some models."""

    def __init__(self, report: Report, group: str, models: set[str]) -> None:
        self.http, self.grpc = (f"127.0.0.1:{port}" for port in free_ports(2))
        line = [sys.executable, "-m", "benches.gpu.servers.penstock_server", report.device, self.http, self.grpc]
        self.processes = Processes([*line, *sorted(models)], environment={}, log=report.work / f"penstock-{group}.log")
        self.is_ready = False

    def until_ready(self) -> None:
        self.processes.until_ready(f"http://{self.http}/v2/health/ready", 80)
        self.is_ready = True

    def statistics(self, name: str) -> Statistics:
        """Counters of a model so far."""
        with urllib.request.urlopen(f"http://{self.http}/v2/models/{name}/stats", timeout=5) as answer:
            model = json.load(answer)["model_stats"][0]
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=5) as answer:
            metrics = answer.read().decode()
        busy = re.search(rf'^penstock_gil_held_seconds_total{{model="{name}"[^}}]*}} (\S+)', metrics, re.MULTILINE)
        batches = {
            int(one["batch_size"]): (int(one["compute_infer"]["count"]), int(one["compute_infer"]["ns"]))
            for one in model["batch_stats"]
        }
        queue = int(model["inference_stats"]["queue"]["ns"])
        return Statistics(int(model["inference_count"]), queue, float(busy[1]) if busy else 0, batches)


def _load(report: Report, server: _Server, load: Load) -> None:
    call = _call(report, server, load)
    check(call, report.work / "answers" / f"{load.model}.{load.wire}", CLASSES * 4)
    clients = 2 if report.cpu else load.clients
    first = first_rate(call, clients=clients, cpu=report.cpu)
    before = server.statistics(load.model)
    measured = measure(call, server.processes, clients=clients, cpu=report.cpu)
    found = server.statistics(load.model).since(before)
    own = own_rate(report, load.datatype)
    calls = sum(count for count, _ in found.batches.values())
    spent = sum(spent for _, spent in found.batches.values())
    report.row(
        *load,
        first,
        measured.rate,
        measured.rate / own if own else None,
        measured.p50_ms,
        measured.p99_ms,
        measured.errors,
        found.rows / calls if calls else None,
        len(found.batches),
        found.queue_ns / found.rows / 1e6 if found.rows else None,
        spent / calls / 1e6 if calls else None,
        found.busy_seconds * measured.rate / found.rows if found.rows else None,
        measured.server_cores,
        measured.gpu.get("percent"),
        measured.gpu.get("watts"),
        measured.gpu.get("megahertz"),
    )
    _sizes(report, load, found)
    if measured.errors:
        report.fact("first error", measured.first_error)


def _sizes(report: Report, load: Load, found: Statistics) -> None:
    """Batches of each size and their mean time, the most frequent first."""
    ordered = sorted(found.batches.items(), key=lambda one: -one[1][0])
    described = [f"{size}: {count} of {spent / count / 1e6:.1f} ms" for size, (count, spent) in ordered]
    report.keep(f"batches of {load.model} {load.wire} {load.clients}", described)
    print("   rows:", "; ".join(described[:_SHOWN]), flush=True)


def _call(report: Report, server: _Server, load: Load) -> loader.Call:
    message = request(load.wire, load.model, Sent((1, *SHAPE), images(1, load.datatype)))
    body = written(report.work / "bodies", f"{load.model}.{load.wire}", message.body)
    if load.wire == "grpc":
        return loader.Call("grpc", server.grpc, GRPC_PATH, body, message.headers, timeout=30)
    return loader.Call("http", server.http, f"/v2/models/{load.model}/infer", body, message.headers, timeout=30)
