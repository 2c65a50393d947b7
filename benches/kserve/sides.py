"""The two products: commands that run the script."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.load.processes import Processes, free_ports
from benches.load.systems import SYSTEMS, VENVS

SCRIPT = Path(__file__).parent / "server.py"
STARTS = 60.0
"""Seconds that a server may take to start."""


@dataclass(frozen=True)
class Side:
    """One of the two products."""

    name: str
    python: list[str]


@dataclass(frozen=True)
class Running:
    """A running server."""

    http: str
    grpc: str
    started: float
    """Seconds from the start until the model was ready."""
    processes: Processes


def both() -> list[Side]:
    """KServe first, in the environment of benches/load."""
    if missing := SYSTEMS["kserve"].missing():
        raise SystemExit(f"{missing}; see benches/load/README.md")
    penstock = [sys.executable, "-m", "penstock", "shim", "kserve", "--", sys.executable]
    return [Side("kserve", [str(VENVS / "kserve" / "bin" / "python")]), Side("penstock", penstock)]


@contextmanager
def serving(side: Side, log: Path, *flags: str) -> Iterator[Running]:
    """Starts the server with the flags of a pod."""
    http, grpc = free_ports(2)
    began = time.monotonic()
    command = [*side.python, str(SCRIPT), f"--http_port={http}", f"--grpc_port={grpc}", *flags]
    processes = Processes(command, environment={}, log=log)
    try:
        processes.until_ready(f"http://127.0.0.1:{http}/v2/models/double/ready", STARTS)
        yield Running(f"127.0.0.1:{http}", f"127.0.0.1:{grpc}", time.monotonic() - began, processes)
    finally:
        processes.stop()
