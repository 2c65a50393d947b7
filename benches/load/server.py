"""One server under test: started for a workload, measured, stopped."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

from benches.load import dialects, loader, payloads
from benches.load.processes import Processes, busy_seconds, free_ports
from benches.load.systems import GRPC_PATH, Launch, System
from benches.load.workloads import LEAVE_SECONDS, Workload

_READY_SECONDS = 90
_FIRST_ANSWER_SECONDS = 20
_PAUSE_SECONDS = 0.05


class StartFailed(Exception):
    """The server did not return a right response in time."""


class Server:
    """A running server. A context manager: leaving it ends its processes."""

    def __init__(self, system: System, workload: Workload, *, wires: tuple[str, ...], work: Path) -> None:
        self.system = system
        self.workload = workload
        self.wires = tuple(wire for wire in wires if wire in system.dialects)
        self._work = work
        self._count = work / "logs" / f"{system.name}-{workload.name}.count"
        self.footprint: dict[str, Any] = {}

    def __enter__(self) -> Server:
        self._http, self._grpc, metrics = free_ports(3)
        launch = Launch(self._http, self._grpc, _answers(self.workload, self._work))
        environment = {
            "BENCH_MODELS": self.workload.model,
            "BENCH_PORT": str(self._http),
            "BENCH_GRPC_PORT": str(self._grpc),
            "BENCH_METRICS_PORT": str(metrics),
            # Numerical libraries would use all cores for one call, and hide the cost of the server.
            "OMP_NUM_THREADS": "1",
            "BENCH_COUNT": str(self._count),
            **self.system.environment,
        }
        self._count.unlink(missing_ok=True)
        log = self._work / "logs" / f"{self.system.name}-{self.workload.name}.log"
        started = time.monotonic()
        self._processes = Processes(self.system.command(launch), environment=environment, log=log)
        try:
            self._wait(started)
        except BaseException:
            self._processes.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.stop()

    def call(self, wire: str) -> loader.Call:
        """The workload's request in this server's dialect for `wire`."""
        dialect = self.system.dialects[wire]
        message = dialects.request(dialect, self.workload.model, payloads.INPUTS[self.workload.input])
        body = _written(self._work / "bodies" / f"{self.workload.name}.{dialect}", message.body)
        grpc = wire == "grpc"
        return loader.Call(
            wire="grpc" if grpc else "http",
            address=f"127.0.0.1:{self._grpc if grpc else self._http}",
            path=GRPC_PATH if grpc else self.system.path(self.workload.model, dialect),
            body=body,
            headers=message.headers,
            timeout=self.workload.timeout,
            arrivals=self.workload.arrivals,
            leave=self.workload.leave,
            leave_after=LEAVE_SECONDS,
        )

    def check(self, wire: str, *, patience: float = _FIRST_ANSWER_SECONDS) -> str | None:
        """The error of its response; None if the values are correct."""
        saved = self._work / "answers" / f"{self.system.name}-{self.workload.name}.{wire}"
        saved.parent.mkdir(parents=True, exist_ok=True)
        refusal = loader.ask(self.call(wire), saved, timeout=patience)
        if refusal is not None:
            return f"no good answer: {refusal}"
        return payloads.problem(self.workload, self.system.dialects[wire], saved.read_bytes())

    def measure(self, wire: str, connections: int, *, seconds: float, warm_up: float) -> dict[str, Any]:
        """Counts of the loader, and the cost of the server's processes."""
        before, computed = self._spent(), self._computed()
        counts = loader.load(
            self.call(wire), connections=connections, seconds=seconds, warm_up=warm_up, rate=self.workload.rate
        )
        own, loaders, machine, elapsed = (after - start for after, start in zip(self._spent(), before, strict=True))
        own_cores = max(own, 0) / elapsed
        counts["server_cores"] = round(own_cores, 3)
        counts["loader_cores"] = round(loaders / elapsed, 3)
        counts["other_cores"] = round(max(machine - own - loaders, 0) / elapsed, 3)
        counts["server_cpu_us"] = round(own_cores / counts["rps"] * 1e6, 1) if counts["rps"] else None
        counts["computed"] = self._computed() - computed
        counts["memory_mb"] = self.memory_mb()
        return counts

    def memory_mb(self) -> float:
        """Memory of its processes now."""
        return self._processes.memory_mb()

    def _computed(self) -> int:
        """Rows that the model has computed; 0 for models that do not count."""
        return self._count.stat().st_size if self._count.exists() else 0

    def _spent(self) -> tuple[float, float, float, float]:
        """Processor seconds of the server, of finished loaders and of the whole machine; and the time."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        loaders = children.ru_utime + children.ru_stime
        return self._processes.cpu_seconds(), loaders, busy_seconds(), time.monotonic()

    def _wait(self, started: float) -> None:
        problem: str | None = "it was not asked"
        while time.monotonic() < started + _READY_SECONDS:
            status = self._processes.ended()
            if status is not None:
                raise StartFailed(f"ended with status {status}: see {self._processes.log}")
            problem = self.check(self.wires[0], patience=_FIRST_ANSWER_SECONDS)
            if problem is None or not problem.startswith("no good answer"):
                break
            time.sleep(_PAUSE_SECONDS)
        else:
            raise StartFailed(f"{problem}: see {self._processes.log}")
        self.footprint = {
            "start_seconds": round(time.monotonic() - started, 2),
            "idle_mb": self._processes.memory_mb(),
            "processes": self._processes.count(),
        }


def _answers(workload: Workload, work: Path) -> dict[str, Path]:
    """The responses of the bare echo; empty if the values are unknown, which skips the echo."""
    values = payloads.expected(workload)
    if values is None:
        return {}
    folder = work / "answers"
    return {
        wire: _written(folder / f"right-{workload.name}.{wire}", dialects.answer(wire, workload.model, values))
        for wire in ("json", "bin", "grpc")
    }


def _written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
