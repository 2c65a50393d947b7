"""LitServe under the same load, with several numbers of workers and API servers."""

from __future__ import annotations

import importlib.util
import sys

from benches.gpu.device import own_rate
from benches.gpu.load import check, first_rate, measure, written
from benches.gpu.network import CLASSES, SHAPE, images
from benches.gpu.report import Report
from benches.load import loader
from benches.load.dialects import Sent, request
from benches.load.processes import Processes, free_ports

_SETTINGS = ((1, 4), (2, 8))
"""Workers, which have a copy of the network each, and API servers."""


def run(report: Report) -> None:
    """Starts the server with each of the settings."""
    if importlib.util.find_spec("litserve") is None:
        report.fact("LitServe", "not installed")
        return
    loader.build()
    columns = ("first 3 s", "req/s", "/device", "p50 ms", "p99 ms", "errors", "cores", "GPU %", "W", "MHz")
    title = "LitServe, max_batch_size=64, batch_timeout=2 ms, fast_queue, octets, allowed sizes"
    report.table(title, "workers", "API servers", "clients", *columns)
    for workers, api_servers in _SETTINGS[: 1 if report.cpu else None]:
        report.attempt(f"{workers} workers", lambda one=(workers, api_servers): _measured(report, *one))


def _measured(report: Report, workers: int, api_servers: int) -> None:
    (port,) = free_ports(1)
    numbers = [str(number) for number in (port, workers, api_servers)]
    command = [sys.executable, "-m", "benches.gpu.servers.litserve_server", report.device, *numbers]
    processes = Processes(command, environment={}, log=report.work / f"litserve-{workers}.log")
    message = request("raw", "resnet", Sent((1, *SHAPE), images(1, "UINT8")))
    body = written(report.work / "bodies", "litserve.bin", message.body)
    call = loader.Call("http", f"127.0.0.1:{port}", "/predict", body, message.headers, timeout=30)
    own = own_rate(report, "UINT8")
    try:
        processes.until_ready(f"http://127.0.0.1:{port}/health", 40)
        check(call, report.work / "answers" / "litserve", CLASSES * 4)
        for clients in (2,) if report.cpu else (64, 256):
            first = first_rate(call, clients=clients, cpu=report.cpu)
            found = measure(call, processes, clients=clients, cpu=report.cpu)
            share = found.rate / own if own else None
            times = (found.p50_ms, found.p99_ms, found.errors, found.server_cores)
            used = (found.gpu.get("percent"), found.gpu.get("watts"), found.gpu.get("megahertz"))
            report.row(workers, api_servers, clients, first, found.rate, share, *times, *used)
            if found.errors:
                report.fact("first error", found.first_error)
    finally:
        processes.stop()
