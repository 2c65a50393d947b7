"""A real out-of-memory error of torch: batches shrink, and no request fails with `retry_on_oom`."""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

import numpy as np

from benches.gpu.load import check, written
from benches.gpu.report import Report
from benches.load import loader
from benches.load.dialects import Sent, request
from benches.load.processes import Processes, free_ports

_FITTING = 20


def run(report: Report) -> None:
    """Sends 64 requests at once to a handler that has memory for 20 rows, with and without `retry_on_oom`."""
    loader.build()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [sys.executable, "-m", "benches.gpu.servers.hungry_server", report.device, address, str(_FITTING)]
    processes = Processes(command, environment={}, log=report.work / "hungry.log")
    message = request("bin", "", Sent((1, 16), np.ones((1, 16), np.float32)))
    body = written(report.work / "bodies", "hungry", message.body)
    try:
        processes.until_ready(f"http://{address}/v2/health/ready", 25)
        report.fact("rows that fit", _FITTING)
        columns = ("succeeded", "failed", "learned max_size", "largest batch", "batches")
        report.table("64 clients for a second", "retry_on_oom", *columns, "first error")
        for name in ("retries", "fails"):
            call = loader.Call("http", address, f"/v2/models/{name}/infer", body, message.headers, timeout=20)
            check(call, report.work / "answers" / "hungry", 4)
            found = loader.load(call, connections=64, seconds=1)
            batching = _batching(address, name)
            rows = [one["rows"] for one in batching["decisions"]]
            learned = batching["learned"]["max_size"]
            first = str(found["first_error"] or "")[:200]
            report.row(name == "retries", found["ok"], found["errors"], learned, max(rows), len(rows), first)
    finally:
        processes.stop()
        lines = [line for line in processes.log.read_text(errors="replace").splitlines() if "out of memory:" in line]
        report.fact("batches out of memory", len(lines))
        for line in lines[:4]:
            report.fact("log", line)


def _batching(address: str, name: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{address}/debug/batching", timeout=5) as answer:
        given: Any = json.load(answer)
    models = given["models"] if isinstance(given, dict) else given
    return next(one for one in models if name in (one.get("name"), one.get("model")))
