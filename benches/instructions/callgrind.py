"""Builds the server, and runs it under callgrind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

Count = int
"""Instructions."""


def binary(*, symbols: bool) -> Path:
    """Builds the server with the profile of the wheel in CI. Symbols need another build."""
    environment = dict(os.environ)
    target = Path(environment.get("CARGO_TARGET_DIR", ROOT / "target"))
    if symbols:
        environment |= {"CARGO_PROFILE_FAST_STRIP": "none", "CARGO_PROFILE_FAST_DEBUG": "1"}
        target /= "symbols"
    command = ["cargo", "build", "-q", "--locked", "--profile", "fast", "--target-dir", str(target)]
    command += ["-p", "penstock-server", "--features", "penstock-core/testing", "--example", "instructions"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return target / "fast" / "examples" / "instructions"


def run(server: Path, scenario: str, requests: int, output: Path | None = None) -> Count:
    """Runs the server once. Returns all instructions of the run, and leaves callgrind's file at `output`."""
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: apt-get install valgrind")
    with tempfile.TemporaryDirectory() as folder:
        path = output or Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={path}", "--separate-callers=1"]
        command += [str(server), scenario, str(requests)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"the run of {scenario} failed:\n{done.stderr}")
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        sys.exit(f"callgrind reported no count for {scenario}:\n{done.stderr}")
    return int(found[1])


def count(server: Path, scenario: str, few: int, many: int) -> Count:
    """Instructions of one request."""
    return round((run(server, scenario, many) - run(server, scenario, few)) / (many - few))
