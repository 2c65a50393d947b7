"""k6, a load generator in Go with scripts in JavaScript: REST, and gRPC with reflection and health (case G8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clients_tools import REPOSITORY

from http_by_hand import metric_at
from serving_process import Serving

SCRIPT = Path(__file__).parent / "k6.js"
ITERATIONS = 200


def test_k6_over_rest_and_grpc(server: Serving, k6: Callable[..., Any], tmp_path: Path) -> None:
    def count_ok(protocol: str) -> float:
        return metric_at(server.http, "penstock_requests_total", protocol=protocol, outcome="ok")

    before = count_ok("http"), count_ok("grpc")
    summary = tmp_path / "summary.json"
    k6(
        *("run", "--quiet", "--no-usage-report", "--address", "", "--summary-export", str(summary)),
        *("-e", f"HTTP={server.http}", "-e", f"GRPC={server.grpc}", "-e", f"PROTO_FOLDER={REPOSITORY / 'proto'}"),
        str(SCRIPT),
    )
    metrics = json.loads(summary.read_text())["metrics"]
    assert metrics["iterations"]["count"] == ITERATIONS
    assert metrics["checks"]["fails"] == 0
    assert metrics["checks"]["passes"] == 11 * ITERATIONS
    assert (count_ok("http") - before[0], count_ok("grpc") - before[1]) == (ITERATIONS, 2 * ITERATIONS)
