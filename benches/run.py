"""Runs every benchmark, from the inside out: the Rust crates, the boundary to Python, and the whole server.

python benches/run.py            the numbers; some minutes
python benches/run.py --smoke    a moment of each, to check that all work; the numbers are meaningless
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

WORKLOADS = "m1,m1b,m2mean,m2json,m2out,m4b"


def main() -> int:
    """Runs the benchmarks; exit status 1 if one failed."""
    parser = argparse.ArgumentParser(description="Run every benchmark.")
    parser.add_argument("--smoke", action="store_true", help="a moment of each, to see that all works")
    smoke = parser.parse_args().smoke
    crates = ["-p", "penstock-core", "-p", "penstock-wire", "--features", "penstock-core/testing"]
    # The release profile takes minutes to link six binaries.
    rust = ["cargo", "bench", "--locked", "--profile", "fast", *crates, *(["--", "--test"] if smoke else [])]
    boundary = [sys.executable, "-m", "pytest", "-q", "benches/python"]
    boundary += ["--benchmark-disable"] if smoke else ["--benchmark-verbose", "--benchmark-columns=min,median,stddev"]
    load = [sys.executable, "-m", "benches.load", *(["smoke"] if smoke else ["run", "echo,penstock", WORKLOADS])]
    failed = [command for command in (rust, boundary, load) if not _succeeds(command)]
    for command in failed:
        print(f"failed: {' '.join(command)}", file=sys.stderr)
    return 1 if failed else 0


def _succeeds(command: list[str]) -> bool:
    print(f"== {' '.join(command)}", file=sys.stderr, flush=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
