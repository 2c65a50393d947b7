"""Penstock under load: throughput as a share of the device's own, batches, utilisation, the GIL."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from typing import NamedTuple

from benches.gpu.device import own_rate
from benches.gpu.load import check, measure, written
from benches.gpu.network import CLASSES, SHAPE, images
from benches.gpu.report import Report
from benches.load import loader
from benches.load.dialects import Sent, request
from benches.load.processes import Processes, free_ports
from benches.load.systems import GRPC_PATH


class Load(NamedTuple):
    """One load."""

    model: str
    wire: str
    clients: int

    @property
    def datatype(self) -> str:
        """Datatype of the model's images."""
        return "FP16" if self.model.startswith("fp16") else "UINT8"


_LOADS = tuple(
    Load(*one)
    for one in (
        ("nothing", "bin", 64),
        ("plain-1", "bin", 64),
        ("plain-2", "bin", 64),
        ("stream-2", "bin", 64),
        ("plain-2", "bin", 256),
        ("stream-2", "grpc", 64),
        ("staged-1", "bin", 64),
        ("staged-2", "bin", 64),
        ("staged-2", "bin", 256),
        ("fp16-1", "bin", 64),
        ("fp16-2", "bin", 64),
        ("nothing", "grpc", 64),
        ("plain-1", "grpc", 64),
        ("staged-2", "grpc", 256),
        ("fp16-2", "grpc", 64),
        ("stream-2", "bin", 128),
    )
)
"""In the order of their value."""


def run(report: Report) -> None:
    """Starts the server and measures each load."""
    loader.build()
    ports = free_ports(2)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    command = [sys.executable, "-m", "benches.gpu.servers.penstock_server", report.device, *addresses]
    processes = Processes(command, environment={}, log=report.work / "penstock.log")
    try:
        processes.until_ready(f"http://{addresses[0]}/v2/health/ready", 60)
        columns = ("p50 ms", "p99 ms", "errors", "batch", "queue ms", "compute", "GIL s/s", "cores", "GPU %", "W")
        report.table("Penstock, Batching(max_size=64)", "model   ", "wire", "clients", "req/s", "/device", *columns)
        for one in _LOADS:
            report.attempt(f"{one.model} {one.wire}", lambda one=one: _load(report, processes, addresses, one))
    finally:
        processes.stop()


def _load(report: Report, processes: Processes, addresses: list[str], load: Load) -> None:
    call = _call(report, addresses, load)
    check(call, report.work / "answers" / f"{load.model}.{load.wire}", CLASSES * 4)
    before = _statistics(addresses[0], load.model)
    measured = measure(call, processes, clients=2 if report.cpu else load.clients, cpu=report.cpu)
    rows, calls, queue, compute, gil = (
        after - start for after, start in zip(_statistics(addresses[0], load.model), before, strict=True)
    )
    own = own_rate(report, load.datatype)
    seconds = rows / measured.rate if measured.rate else 0
    report.row(
        *load,
        measured.rate,
        measured.rate / own if own else None,
        measured.p50_ms,
        measured.p99_ms,
        measured.errors,
        rows / calls if calls else None,
        queue / rows / 1e6 if rows else None,
        compute / rows / 1e6 if rows else None,
        gil / seconds if seconds else None,
        measured.server_cores,
        measured.gpu.get("percent"),
        measured.gpu.get("watts"),
    )
    if measured.errors:
        report.fact("first error", measured.first_error)


def _statistics(address: str, name: str) -> tuple[float, float, float, float, float]:
    """Rows, calls, nanoseconds of requests in the queue and in the handler, and seconds with the GIL held."""
    with urllib.request.urlopen(f"http://{address}/v2/models/{name}/stats", timeout=5) as answer:
        model = json.load(answer)["model_stats"][0]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
        metrics = answer.read().decode()
    gil = re.search(rf'^penstock_gil_held_seconds_total{{model="{name}"[^}}]*}} (\S+)', metrics, re.MULTILINE)
    times = model["inference_stats"]
    return (
        model["inference_count"],
        model["execution_count"],
        times["queue"]["ns"],
        times["compute_infer"]["ns"],
        float(gil[1]) if gil else 0,
    )


def _call(report: Report, addresses: list[str], load: Load) -> loader.Call:
    message = request(load.wire, load.model, Sent((1, *SHAPE), images(1, load.datatype)))
    body = written(report.work / "bodies", f"{load.model}.{load.wire}", message.body)
    if load.wire == "grpc":
        return loader.Call("grpc", addresses[1], GRPC_PATH, body, message.headers, timeout=30)
    return loader.Call("http", addresses[0], f"/v2/models/{load.model}/infer", body, message.headers, timeout=30)
