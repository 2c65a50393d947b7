"""The load generator and the bare echo: a small Rust crate in tools/."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CRATE = Path(__file__).parent / "tools"
_TARGET = Path(os.environ.get("CARGO_TARGET_DIR", _CRATE / "target"))
_BINARIES = Path(os.environ.get("BENCH_TOOLS", _TARGET / "release"))
LOAD, LIMIT = _BINARIES / "load", _BINARIES / "limit"

_SLACK_SECONDS = 90
"""Timeout of the loader beyond its measurement, in seconds."""


@dataclass(frozen=True)
class Call:
    """One request, which is sent repeatedly."""

    wire: str
    """ "http" or "grpc"."""
    address: str
    path: str
    body: Path
    headers: tuple[str, ...]
    timeout: float
    arrivals: str = "even"
    leave: float = 0
    leave_after: float = 0

    def arguments(self) -> list[str]:
        """The loader's command line for it."""
        line = ["--wire", self.wire, "--address", self.address, "--path", self.path, "--body", str(self.body)]
        for header in self.headers:
            line += ["--header", header]
        line += ["--arrivals", self.arrivals, "--leave", str(self.leave), "--leave-after", str(self.leave_after)]
        return [*line, "--timeout", str(self.timeout)]


def build() -> None:
    """Builds the tools, unless BENCH_TOOLS names a folder that has them."""
    if "BENCH_TOOLS" in os.environ:
        return
    command = ["cargo", "build", "--release", "--locked", "--manifest-path", str(_CRATE / "Cargo.toml")]
    subprocess.run([*command, "--target-dir", str(_TARGET)], check=True)


def load(call: Call, *, connections: int, seconds: float, warm_up: float = 0, rate: float = 0) -> dict[str, Any]:
    """Runs the loader; its counts and latencies (microseconds)."""
    numbers = {"connections": connections, "seconds": seconds, "warm-up": warm_up, "rate": rate}
    return _run(call, numbers, seconds + warm_up)


def ask(call: Call, save: Path, *, timeout: float) -> str | None:
    """Sends one request. None if a successful response is in `save`, else the error."""
    save.unlink(missing_ok=True)
    result = _run(call, {"requests": 1, "seconds": timeout}, timeout, ["--save", str(save)])
    if save.exists():
        return None
    return f"{result['codes']} {result['first_error'] or ''}".strip()


def _run(call: Call, numbers: dict[str, float], seconds: float, more: list[str] | None = None) -> dict[str, Any]:
    line = [str(LOAD), *call.arguments(), *(more or [])]
    for name, number in numbers.items():
        line += [f"--{name}", str(number)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=seconds + _SLACK_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"the loader failed: {done.stderr.strip()[-300:]}")
    counts: dict[str, Any] = json.loads(done.stdout)
    return counts
