"""`python -m benches.functions`: cost of a call through each function integration, and batches compared with FastAPI.

Run it at the repository's root on a machine that does nothing else. FastAPI's environment and the loader are those of
benches/load. With `--smoke`, it only checks that it works.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benches.functions.measure import LEAST_TIMES, MOST_ADDED_US, Added, Batch, added, batches
from benches.functions.one_core import one_core
from benches.functions.sides import running
from benches.load.loader import build
from benches.load.machine import provenance

_ADDED = ("call", "user code in", "p50", "plain V2", "adds", "by medians", "wanted", "")
_BATCHES = ("10,000 rows", "user code in", "FastAPI", "Penstock", "faster", "wanted", "")
_GOOD = {None: "", True: "yes", False: "no"}


def main() -> int:
    """Measures, prints, and saves the requested results."""
    parser = argparse.ArgumentParser(prog="python -m benches.functions", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("all", "calls", "batches"), default="all")
    parser.add_argument("--seconds", type=float, default=0.1, help="of each turn with single rows (default: 0.1)")
    parser.add_argument("--turns", type=int, default=40, help="of each (default: 40)")
    parser.add_argument("--smoke", action="store_true", help="a moment of each: the numbers mean nothing")
    parser.add_argument("--json", type=Path, help="a file for the numbers and where they are from")
    options = parser.parse_args()
    seconds, turns = (0.1, 1) if options.smoke else (options.seconds, options.turns)
    build()
    calls: list[Added] = []
    rows: list[Batch] = []
    if options.what in ("all", "calls"):
        with one_core(), running() as servers:
            calls = added(servers, seconds, turns)
        print(table_of_calls(calls))
    if options.what in ("all", "batches"):
        with running() as servers:
            rows = batches(servers, 0.5 if options.smoke else 10 * seconds, max(1, turns // 8))
        print(table_of_batches(rows))
    if options.json:
        told = {
            "calls": [{**vars(one), "added_us": one.added_us} for one in calls],
            "batches": [vars(one) for one in rows],
        }
        options.json.write_text(json.dumps({**provenance(), **told}, indent=1) + "\n")
    return 0


def table_of_calls(calls: Sequence[Added]) -> str:
    """Formats the results as Markdown."""
    return _table(_ADDED, [_cells_of_call(one) for one in calls])


def table_of_batches(rows: Sequence[Batch]) -> str:
    """Formats the results as Markdown."""
    return _table(_BATCHES, [_cells_of_batch(one) for one in rows])


def _cells_of_call(one: Added) -> tuple[str, ...]:
    numbers = (f"{one.us:.0f} us", f"{one.plain_us:.0f} us", f"{one.added_us:+.0f} us", f"{one.by_medians_us:+.0f} us")
    wanted = f"<= {MOST_ADDED_US} us" if one.is_integration else ""
    return one.what, one.place, *numbers, wanted, _GOOD[one.good()]


def _cells_of_batch(one: Batch) -> tuple[str, ...]:
    took = (f"{ms:,.1f} ms" for ms in (one.fastapi_ms, one.penstock_ms))
    wanted = f">= {LEAST_TIMES}x" if one.has_same_function else ""
    return one.what, one.place, *took, f"{one.times():.1f}x", wanted, _GOOD[one.good()]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
