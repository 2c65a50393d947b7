"""The sections in the order of their value, and the run of one in this process."""

from __future__ import annotations

import importlib
import signal
import sys
from dataclasses import dataclass

from benches.gpu.report import Report


@dataclass(frozen=True)
class Section:
    """One section: the module `benches.gpu.NAME`, whose function `run` takes a report."""

    name: str
    limit: float
    """Seconds after which it is stopped."""
    needs_gpu: bool = False
    least: float = 10
    """Seconds that have to be left of the budget."""


SECTIONS = (
    Section("facts", 60),
    Section("transfers", 40, needs_gpu=True),
    Section("device", 50),
    Section("first_calls", 50),
    Section("penstock_load", 160, least=40),
    Section("litserve_load", 75, least=30),
    Section("penstock_memory", 150, least=40),
    Section("out_of_memory", 35, least=20),
    Section("tensors", 30),
    Section("interop", 25),
    Section("overlap", 25, needs_gpu=True),
    Section("graphs", 25, needs_gpu=True),
    Section("own_tests", 45),
    Section("compiled", 50, needs_gpu=True, least=30),
)


def run_here(name: str, *, cpu: bool) -> int:
    """Runs a section in this process. SIGTERM ends it as an exception, so that it stops its servers."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Report(name, cpu=cpu)
    importlib.import_module(f"benches.gpu.{name}").run(report)
    return 0
