"""Table of the instructions of one request by stage.

A stage is a group of source files and libraries. Instructions of the standard library, of memcpy and of the allocator
count for the nearest caller that callgrind separates, where that caller has a stage.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benches.instructions.callgrind import Count, run

# The first pattern that a line of callgrind_annotate matches.
STAGES: Mapping[str, str] = {
    "client of the counter": r"instructions::|examples/instructions/",
    "copies (memcpy)": r"memcpy|memmove|memset",
    "allocator": r"malloc|calloc|_int_free|\bfree\b|memalign|rdl_alloc|rdl_dealloc|rust_alloc|rust_dealloc",
    "wire: decode, encode": r"penstock_wire|rust/wire|zmij",
    "core: queue, batch, job, reply": r"penstock_core|rust/core",
    "server: sockets, framing": r"penstock_server::net|rust/server/src/net",
    "server: dispatch, inference": r"penstock_server|rust/server",
    "HTTP (hyper, h2, http)": r"hyper|httparse|\bh2\b|h2-\d|http-\d|\bhttp::",
    "runtime (tokio)": r"tokio|mio",
    "locks, clocks, threads": r"pthread|futex|clock_gettime|sync::poison|Timespec|epoll|syscall",
}
OTHER = "other (standard library)"


def stage_of(line: str) -> str:
    """The stage of a function."""
    return next((name for name, pattern in STAGES.items() if re.search(pattern, line)), OTHER)


def by_stage(server: Path, scenario: str, requests: int) -> Counter[str]:
    """Instructions of a run by stage."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "callgrind.out"
        run(server, scenario, requests, output)
        command = ["callgrind_annotate", "--threshold=100", "--auto=no", str(output)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counted: Counter[str] = Counter()
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+) \([ \d.]+%\)\s+(.*)", line)
        if found is not None and "PROGRAM TOTALS" not in line:
            # The binary behind the function's name has the name of the client.
            counted[stage_of(found[2].partition(" [")[0])] += int(found[1].replace(",", ""))
    return counted


def show(server: Path, scenarios: Mapping[str, tuple[int, int]]) -> None:
    """Prints the table."""
    columns: dict[str, Mapping[str, Count]] = {}
    for name, (few, many) in scenarios.items():
        low, high = (by_stage(server, name, requests) for requests in (few, many))
        columns[name] = {stage: round((high[stage] - low[stage]) / (many - few)) for stage in [*STAGES, OTHER]}
    print(f"| stage | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}")
    for stage in [*STAGES, OTHER]:
        print(f"| {stage} | {' | '.join(f'{column[stage]:,}' for column in columns.values())} |")
    print(f"| **sum** | {' | '.join(f'{sum(column.values()):,}' for column in columns.values())} |")
