"""`python -m benches.gpu`: sections one after the other, each in its own process with a time limit.

Run it at the repository's root, with a Python that has `penstock`, torch and torchvision. A section that fails or is
stopped by its limit leaves its rows, and the next one runs. `results.json` is written after each section.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from benches.gpu.run import run_section
from benches.gpu.sections import SECTIONS, run_here
from benches.load.machine import provenance


def main() -> int:
    """Runs the requested sections. Returns 1 if any of them failed."""
    parser = argparse.ArgumentParser(prog="python -m benches.gpu", description=__doc__)
    names = [section.name for section in SECTIONS]
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"all by default: {' '.join(names)}")
    parser.add_argument("--out", type=Path, default=Path("bench-data/gpu"), help="folder of results.json")
    parser.add_argument("--budget", type=float, default=300, help="seconds for all of them together (default: 300)")
    parser.add_argument("--cpu", action="store_true", help="checks the code without a GPU, with small sizes")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        return run_here(options.here, cpu=options.cpu)
    if unknown := set(options.sections) - set(names):
        parser.error(f"unknown section {sorted(unknown)[0]!r}; expected some of {' '.join(names)}")
    options.out.mkdir(parents=True, exist_ok=True)
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    # SIGTERM as an exception, so that the running section is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    results = {**provenance(), "command": " ".join(["python -m benches.gpu", *sys.argv[1:]]), "sections": {}}
    for section in SECTIONS:
        if options.sections and section.name not in options.sections:
            continue
        left = start + options.budget - time.monotonic()
        if section.needs_gpu and options.cpu:
            outcome = {"status": "skipped: needs a GPU"}
        elif left < section.least:
            outcome = {"status": f"skipped: {left:.0f} s of the budget are left"}
        else:
            outcome = run_section(section, limit=min(section.limit, left), cpu=options.cpu)
        results["sections"][section.name] = outcome
        print(f"-- {section.name}: {outcome['status']}, {time.monotonic() - start:.0f} s since the start", flush=True)
        written = options.out / "results.json.new"
        written.write_text(json.dumps(results, indent=1) + "\n")
        os.replace(written, options.out / "results.json")
    return int(any(one["status"].startswith(("failed", "stopped")) for one in results["sections"].values()))


if __name__ == "__main__":
    sys.exit(main())
