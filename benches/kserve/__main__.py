"""`python -m benches.kserve`: both products one after the other, and a table of results with ratios.

Run it at the repository's root on a machine that does nothing else. KServe's environment and the loader are those of
benches/load. With `--seconds 0.2 --repeats 1`, it only checks that it works.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from benches.kserve.measure import Row, measure
from benches.load.machine import provenance

_HEAD = ("what", "KServe", "Penstock", "better by", "wanted", "")


def main() -> int:
    """Measures, prints, and saves the requested results."""
    parser = argparse.ArgumentParser(prog="python -m benches.kserve", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="how long each measurement takes (default: 5)")
    parser.add_argument("--connections", type=int, default=64, help="of the loader (default: 64)")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each; the table has the medians (default: 3)")
    parser.add_argument("--logs", action="store_true", help="with the lines that both log for each request by default")
    parser.add_argument("--json", type=Path, help="a file for the numbers and where they are from")
    options = parser.parse_args()
    os.environ["BENCH_LOGS"] = str(int(options.logs))
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), options.seconds, options.connections, options.repeats)
    print(table(rows))
    if options.json:
        told = [{**vars(row), "wish": str(row.wish), "ratio": row.ratio(), "good": row.good()} for row in rows]
        options.json.write_text(json.dumps({**provenance(), "logs": options.logs, "rows": told}, indent=1) + "\n")
    return 0


def table(rows: list[Row]) -> str:
    """Formats the results as Markdown."""
    lines = [_HEAD, ("---",) * len(_HEAD)]
    for row in rows:
        good = {None: "", True: "yes", False: "no"}[row.good()]
        shown = (_shown(row.kserve, row.unit), _shown(row.penstock, row.unit))
        lines.append((row.what, *shown, f"{row.ratio():.1f}x", str(row.wish), good))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _shown(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


if __name__ == "__main__":
    sys.exit(main())
