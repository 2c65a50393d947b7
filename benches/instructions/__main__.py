"""Instructions of one request through the whole server, counted by callgrind.

    python -m benches.instructions            # count, and compare with counts.json
    python -m benches.instructions --stages   # a table of the instructions by stage
    python -m benches.instructions --update   # write counts.json

`rust/server/examples/instructions` is the server: no interpreter, one I/O thread, closures as handlers. A count is the
difference of two runs, divided by the difference of their requests. The least of several runs is taken, because a
thread that wakes up late adds some. Exit status 1: a count exceeds its recorded one by more than 2 %.

Counts of another compiler, C library or processor are not comparable. The file names those that it was made with;
on others, the table is printed without a comparison.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benches.instructions import stages
from benches.instructions.callgrind import Count, binary, count

RECORDED = Path(__file__).parent / "counts.json"
MOST = 1.02
RUNS = 3
# Requests (pieces of one stream) in the short and in the long run.
SCENARIOS: Mapping[str, tuple[int, int]] = {
    "json": (200, 1200),
    "json-key": (200, 1200),
    "plain": (200, 1200),
    "binary": (200, 1200),
    "grpc": (200, 1200),
    "json-150k": (1, 4),
    "binary-4.9mb": (4, 24),
    "grpc-4.9mb": (4, 24),
    "stream": (200, 1200),
    "grpc-stream": (200, 1200),
}


def compiled_with() -> dict[str, str]:
    """The parts of this machine that change counts."""
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    simd = " ".join(name for name in ("sse4_2", "avx2", "erms") if name in flags)
    return {"rustc": rustc, "libc": " ".join(platform.libc_ver()), "processor": f"{platform.machine()} {simd}"}


def main() -> int:
    """Counts all scenarios."""
    parser = argparse.ArgumentParser(prog="python -m benches.instructions", description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"default: {' '.join(SCENARIOS)}")
    parser.add_argument("--stages", action="store_true", help="print the instructions by stage")
    parser.add_argument("--update", action="store_true", help=f"write {RECORDED.name}")
    options = parser.parse_args()
    if unknown := set(options.scenarios) - set(SCENARIOS):
        parser.error(f"unknown scenario {sorted(unknown)[0]!r}, expected {', '.join(SCENARIOS)}")
    if options.update and options.scenarios:
        parser.error("--update counts all scenarios")
    server = binary(symbols=options.stages)
    names = options.scenarios or list(SCENARIOS)
    if options.stages:
        stages.show(server, {name: SCENARIOS[name] for name in names})
        return 0
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    machine = compiled_with()
    known = recorded.get("counts", {}) if recorded.get("compiled_with") == machine else {}
    if recorded and not known and not options.update:
        print(f"not compared: {RECORDED.name} was made with {recorded['compiled_with']}, this is {machine}")
    counts = {name: min(count(server, name, *SCENARIOS[name]) for _ in range(RUNS)) for name in names}
    failed = report(counts, known)
    if options.update:
        text = json.dumps({"compiled_with": machine, "counts": counts}, indent=2)
        RECORDED.write_text(text + "\n", encoding="utf-8")
        return 0
    return int(failed)


def report(counts: Mapping[str, Count], known: Mapping[str, Count]) -> bool:
    """Prints the table. Returns true if a count is too high."""
    print("| one request of | instructions | recorded | change |\n|---|--:|--:|--:|")
    failed = False
    for name, counted in counts.items():
        before = known.get(name)
        change = counted / before if before else 1.0
        failed |= change > MOST
        mark = f"{change - 1:+.1%}{' **too many**' if change > MOST else ''}" if before else ""
        print(f"| {name} | {counted:,} | {f'{before:,}' if before else ''} | {mark} |")
    return failed


if __name__ == "__main__":
    sys.exit(main())
