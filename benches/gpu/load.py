"""Load of images on a server by several loaders at once, with the GPU's utilisation meanwhile."""

from __future__ import annotations

import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.gpu.sampler import sampled
from benches.load import loader
from benches.load.processes import Processes

FIRST_SECONDS, SETTLE, SECONDS = 3.0, 0.3, 5.0
"""A load is sent twice. The first time warms up. In the second the first part is not measured."""


@dataclass(frozen=True)
class Measured:
    """Results of one load."""

    rate: float
    """Responses per second."""
    p50_ms: float
    p99_ms: float
    errors: int
    first_error: str
    server_cores: float
    loader_cores: float
    gpu: dict[str, float]


def first_rate(call: loader.Call, *, clients: int, cpu: bool) -> float:
    """Warms up with the same load. Responses per second, with everything that is slow the first time."""
    return sum(run["rps"] for run in _runs(call, clients, cpu, 0, 0.2 if cpu else FIRST_SECONDS))


def measure(call: loader.Call, processes: Processes, *, clients: int, cpu: bool) -> Measured:
    """A closed loop of `clients` requests in flight, divided among the loaders, which have one thread each."""
    settle, seconds = (0.1, 0.5) if cpu else (SETTLE, SECONDS)
    start, before = time.monotonic(), (processes.cpu_seconds(), _children_seconds())
    with sampled(cpu=cpu, after=settle) as gpu:
        runs = _runs(call, clients, cpu, settle, seconds)
    loaders = len(runs)
    elapsed = time.monotonic() - start
    return Measured(
        rate=sum(run["rps"] for run in runs),
        p50_ms=sum(run["p50_us"] for run in runs) / loaders / 1000,
        p99_ms=max(run["p99_us"] for run in runs) / 1000,
        errors=sum(run["errors"] for run in runs),
        first_error=next((str(run["first_error"]) for run in runs if run["first_error"]), ""),
        server_cores=(processes.cpu_seconds() - before[0]) / elapsed,
        loader_cores=(_children_seconds() - before[1]) / elapsed,
        gpu=gpu,
    )


def written(folder: Path, name: str, content: bytes) -> Path:
    """A file with the body of a request."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    return path


def check(call: loader.Call, saved: Path, size: int) -> None:
    """Sends one request.

    Raises:
        RuntimeError: it was refused, or the response has fewer than `size` bytes.
    """
    saved.parent.mkdir(parents=True, exist_ok=True)
    refusal = loader.ask(call, saved, timeout=30)
    if refusal is not None:
        raise RuntimeError(f"no response: {refusal}")
    if (length := saved.stat().st_size) < size:
        raise RuntimeError(f"a response of {length} bytes instead of {size} or more: {saved.read_bytes()[:200]!r}")


def _runs(call: loader.Call, clients: int, cpu: bool, settle: float, seconds: float) -> list[dict[str, Any]]:
    loaders = 1 if cpu else max(2, min(6, (os.cpu_count() or 2) // 3))
    shares = [clients // loaders + (index < clients % loaders) for index in range(loaders)]
    with ThreadPoolExecutor(loaders) as pool:
        return list(pool.map(lambda one: loader.load(call, connections=one, seconds=seconds, warm_up=settle), shares))


def _children_seconds() -> float:
    used: Any = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
