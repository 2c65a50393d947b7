"""Penstock under load: kinds of memory, streams, and a model without a device; mostly without warm-up of sizes."""

from __future__ import annotations

from benches.gpu.penstock_load import Load, run_loads
from benches.gpu.report import Report

_LOADS = tuple(
    Load(*one)
    for one in (
        ("nothing-1", "bin", 64),
        ("plain-1", "bin", 64),
        ("plain-2", "bin", 64),
        ("stream-2", "bin", 64),
        ("plain-2", "bin", 256),
        ("staged-1", "bin", 64),
        ("staged-2", "bin", 64),
        ("staged-2", "bin", 256),
        ("fp16-1", "bin", 64),
        ("fp16-2", "bin", 64),
        ("nothing-1", "grpc", 64),
        ("staged-2", "grpc", 256),
        ("stream-2", "bin", 128),
        ("pinned-2", "bin", 64),
        ("pinned-2", "bin", 256),
    )
)
"""In the order of their value."""


def run(report: Report) -> None:
    """Measures the loads."""
    run_loads(report, _LOADS)
