"""The two products: commands that run a script, and package sizes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.load.processes import Processes, free_ports
from benches.load.systems import SYSTEMS, VENVS

HERE = Path(__file__).parent
STARTS = 180.0
"""Seconds that a server may take to start."""


@dataclass(frozen=True)
class Side:
    """One of the two products."""

    name: str
    python: list[str]
    environment: dict[str, str]

    def client(self, how: str, url: str, seconds: float) -> dict[str, float]:
        """Runs the client with one kind of request; returns its results."""
        command = [*self.python, str(HERE / "client.py"), how, url, str(seconds)]
        with_own = {**os.environ, **self.environment}
        done = subprocess.run(
            command, env=with_own, capture_output=True, text=True, check=False, timeout=seconds + STARTS
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}'s client failed: {done.stderr.strip()[-500:]}")
        numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return numbers

    def installed_mb(self) -> float:
        """Megabytes of the unpacked package, without dependencies."""
        if self.name == "penstock":
            spec = importlib.util.find_spec("penstock")
            assert spec
            assert spec.origin
            folders = [Path(spec.origin).parent]
        else:
            packages = VENVS / "pytriton" / "lib"
            folders = [
                *packages.glob("python*/site-packages/pytriton"),
                *packages.glob("python*/site-packages/nvidia_pytriton*"),
            ]
        found = [path for folder in folders for path in folder.rglob("*")]
        files = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
        return sum(path.stat().st_size for path in files) / 1e6


@dataclass(frozen=True)
class Running:
    """A running server."""

    http: str
    grpc: str
    started: float
    """Seconds from the start until the last model was ready."""
    processes: Processes


def both() -> list[Side]:
    """PyTriton first, in the environment of benches/load."""
    real = SYSTEMS["pytriton"]
    if missing := real.missing():
        raise SystemExit(f"{missing}; see benches/load/README.md")
    penstock = [sys.executable, "-m", "penstock", "shim", "pytriton", "--", sys.executable]
    return [
        Side("pytriton", [str(VENVS / "pytriton" / "bin" / "python")], dict(real.environment)),
        Side("penstock", penstock, {}),
    ]


@contextmanager
def serving(side: Side, log: Path, *, more: int = 0) -> Iterator[Running]:
    """Starts the server with the measured models, or with a number of small models."""
    http, grpc, metrics = free_ports(3)
    began = time.monotonic()
    command = [*side.python, str(HERE / "server.py"), str(http), str(grpc), str(metrics), str(more)]
    processes = Processes(command, environment=side.environment, log=log)
    try:
        last = f"small{more - 1}" if more else "echo"
        processes.until_ready(f"http://127.0.0.1:{http}/v2/models/{last}/ready", STARTS)
        yield Running(f"127.0.0.1:{http}", f"127.0.0.1:{grpc}", time.monotonic() - began, processes)
    finally:
        processes.stop()
